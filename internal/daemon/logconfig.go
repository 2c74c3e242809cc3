package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/internal/flags"
)

// LogOptions are the flags for the level and the format of the log.
type LogOptions struct {
	Level  string // debug, info, warn or error
	Format string // json or text
}

// DefaultLogOptions logs JSON from info upwards.
func DefaultLogOptions() LogOptions { return LogOptions{Level: "info", Format: FormatJSON} }

// Flags declares --log-level and --log-format.
func (o *LogOptions) Flags(fs *flags.Set) {
	_, err := ParseLevel(o.Level)
	fs.String(&o.Level, "log-level", "how much is logged: debug, info, warn or error").Must(err == nil, "be debug, info, warn or error")
	fs.String(&o.Format, "log-format", "form of a log line: json or text").OneOf(FormatJSON, FormatText)
}

// Config returns the configuration of a log from the flags.
func (o *LogOptions) Config() Config {
	return Config{Level: o.Level, Format: o.Format, DebugLines: DefaultDebugLines}
}

// NewLogger returns a logger that writes to w, for processes whose log configuration does not change. Debug shows
// logr's V(1); deeper levels stay hidden.
func (o *LogOptions) NewLogger(w io.Writer) logr.Logger {
	level, _ := ParseLevel(o.Level) // info when it is not valid
	return logr.FromSlogHandler(NewHandler(w, o.Format, level))
}

// Formats of log lines.
const (
	FormatJSON = "json"
	FormatText = "text"
)

// DefaultDebugLines limits how many lines a second the objects of one namespace may log by their annotation.
const DefaultDebugLines = 50

// debugLevel is logr's V(1), which is slog's level -1. Deeper levels stay hidden.
const debugLevel = slog.Level(-1)

// Config is the configuration of a Log.
type Config struct {
	Level      string            // debug, info, warn or error
	Format     string            // FormatJSON or FormatText
	Components map[string]string // levels, by component
	// DebugLines limits how many lines a second the objects of one namespace may log by their annotation; 0: none.
	DebugLines int
}

// ParseLevel accepts debug, info, warn and error, in any case.
func ParseLevel(text string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil || strings.ContainsAny(text, "+-") {
		return 0, fmt.Errorf("%q: use debug, info, warn or error", text)
	}
	if level == slog.LevelDebug {
		level = debugLevel
	}
	return level, nil
}

// NewHandler returns a handler that writes lines in a format to w.
func NewHandler(w io.Writer, format string, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: nameDebug}
	if format == FormatText {
		return slog.NewTextHandler(w, options)
	}
	return slog.NewJSONHandler(w, options)
}

// nameDebug prints logr's V(1) as DEBUG instead of slog's DEBUG+3.
func nameDebug(_ []string, attr slog.Attr) slog.Attr {
	if attr.Key != slog.LevelKey {
		return attr
	}
	if level, ok := attr.Value.Any().(slog.Level); ok && level < slog.LevelInfo {
		attr.Value = slog.StringValue(slog.LevelDebug.String())
	}
	return attr
}

// state is a parsed Config.
type state struct {
	level      slog.Level
	components map[string]slog.Level
	handler    slog.Handler
	debugLines int
}

// levelOf returns the level of the longest configured name that matches.
func (s *state) levelOf(component string) slog.Level {
	if len(s.components) == 0 {
		return s.level
	}
	for name := component; ; {
		if level, ok := s.components[name]; ok {
			return level
		}
		cut := strings.LastIndexByte(name, '/')
		if cut < 0 {
			return s.level
		}
		name = name[:cut]
	}
}

// DebugFor is the longest time for which an object can be debugged.
const DebugFor = time.Hour

// clockSkew is the tolerated clock skew of the client that writes the annotation.
const clockSkew = 5 * time.Minute

// Until parses the annotation rouse.run/debug-until. A time in the past is not an error, and means never.
func Until(annotation string, now time.Time) (time.Time, error) {
	until, err := time.Parse(time.RFC3339, annotation)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("it must be a time such as %s, at most one hour ahead", now.Add(DebugFor).UTC().Format(time.RFC3339))
	case until.Sub(now) > DebugFor+clockSkew:
		return time.Time{}, fmt.Errorf("it is more than one hour ahead: %s is the latest", now.Add(DebugFor).UTC().Format(time.RFC3339))
	case until.Sub(now) > DebugFor:
		return now.Add(DebugFor), nil
	default:
		return until, nil
	}
}
