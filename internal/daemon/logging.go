package daemon

import (
	"fmt"
	"io"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
)

// LogOptions says how much is logged and in what form.
type LogOptions struct {
	Level  string // debug, info, warn or error
	Format string // json or text
}

// DefaultLogOptions logs JSON from info upwards.
func DefaultLogOptions() LogOptions { return LogOptions{Level: "info", Format: FormatJSON} }

// BindFlags adds --log-level and --log-format.
func (o *LogOptions) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Level, "log-level", o.Level, "how much is logged: debug, info, warn or error")
	fs.StringVar(&o.Format, "log-format", o.Format, "form of a log line: json or text")
}

// Validate names the flag that cannot be used.
func (o *LogOptions) Validate() error {
	if _, err := ParseLevel(o.Level); err != nil {
		return fmt.Errorf("--log-level %w", err)
	}
	if o.Format != FormatJSON && o.Format != FormatText {
		return fmt.Errorf("--log-format %q: use json or text", o.Format)
	}
	return nil
}

// Config is what the flags say, for a log that settings may change.
func (o *LogOptions) Config() Config {
	return Config{Level: o.Level, Format: o.Format, DebugLines: DefaultDebugLines}
}

// NewLogger writes structured lines to w, for processes whose log stays as it is. Debug shows logr's V(1); deeper levels
// stay hidden.
func (o *LogOptions) NewLogger(w io.Writer) logr.Logger {
	level, _ := ParseLevel(o.Level) // info when it cannot be read
	return logr.FromSlogHandler(NewHandler(w, o.Format, level))
}
