package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Formats of a line.
const (
	FormatJSON = "json"
	FormatText = "text"
)

// DefaultDebugLines is how many lines a second the objects of one namespace may log by their annotation.
const DefaultDebugLines = 50

// debugLevel is logr's V(1), which is slog's level -1. Deeper levels stay hidden.
const debugLevel = slog.Level(-1)

// Config says how much is logged and in what form.
type Config struct {
	Level      string            // debug, info, warn or error
	Format     string            // FormatJSON or FormatText
	Components map[string]string // levels, by component
	// DebugLines is how many lines a second the objects of one namespace may log by their annotation; 0: none.
	DebugLines int
}

// ParseLevel knows debug, info, warn and error, in any case.
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

// NewHandler writes lines of a format to w.
func NewHandler(w io.Writer, format string, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: nameDebug}
	if format == FormatText {
		return slog.NewTextHandler(w, options)
	}
	return slog.NewJSONHandler(w, options)
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

// state is a Config as lines are judged by it.
type state struct {
	level      slog.Level
	components map[string]slog.Level
	handler    slog.Handler
	debugLines int
}

// levelOf is that of the longest name that has one.
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
