package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
)

// LogOptions says how much is logged and in what form.
type LogOptions struct {
	Level  string // debug, info, warn or error
	Format string // json or text
}

// DefaultLogOptions logs JSON from info upwards.
func DefaultLogOptions() LogOptions { return LogOptions{Level: "info", Format: "json"} }

// BindFlags adds --log-level and --log-format.
func (o *LogOptions) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Level, "log-level", o.Level, "how much is logged: debug, info, warn or error")
	fs.StringVar(&o.Format, "log-format", o.Format, "form of a log line: json or text")
}

// Validate names the flag that cannot be used.
func (o *LogOptions) Validate() error {
	if _, err := o.level(); err != nil {
		return err
	}
	if o.Format != "json" && o.Format != "text" {
		return fmt.Errorf("--log-format %q: use json or text", o.Format)
	}
	return nil
}

// NewLogger writes structured lines to w. Debug shows logr's V(1); deeper levels stay hidden.
func (o *LogOptions) NewLogger(w io.Writer) logr.Logger {
	level, err := o.level()
	if err != nil {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: nameDebug}
	if o.Format == "text" {
		return logr.FromSlogHandler(slog.NewTextHandler(w, options))
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(w, options))
}

func (o *LogOptions) level() (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.Level)); err != nil || strings.ContainsAny(o.Level, "+-") {
		return 0, fmt.Errorf("--log-level %q: use debug, info, warn or error", o.Level)
	}
	if level == slog.LevelDebug {
		level = slog.Level(-1) // logr's V(1) is slog's level -1
	}
	return level, nil
}

// nameDebug prints logr's V(1) as DEBUG, where slog would say DEBUG+3.
func nameDebug(_ []string, attr slog.Attr) slog.Attr {
	if attr.Key != slog.LevelKey {
		return attr
	}
	if level, ok := attr.Value.Any().(slog.Level); ok && level < slog.LevelInfo {
		attr.Value = slog.StringValue(slog.LevelDebug.String())
	}
	return attr
}
