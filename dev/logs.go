package dev

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/internal/daemon"
)

// logFile is where the parts that come from a cluster log, in the state folder. Each start truncates it.
const (
	logFile   = "rouse.log"
	ownerOnly = 0o600
)

// openLog makes the log of all parts. What they call errors is shown too, in a line.
func openLog(folder string, show func(text string)) (logr.Logger, io.Closer, error) {
	path := filepath.Join(folder, logFile)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, ownerOnly) //nolint:gosec // below the state root
	if err != nil {
		return logr.Discard(), nil, fmt.Errorf("open the log: %w", err)
	}
	options := daemon.DefaultLogOptions()
	log := logr.FromSlogHandler(&shown{Handler: logr.ToSlogHandler(options.NewLogger(file)), show: show})
	return log, file, nil
}

// shown is a handler whose errors are shown.
type shown struct {
	slog.Handler

	show func(text string)
}

// Handle implements slog.Handler.
func (h *shown) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelError {
		h.show(sentence(record))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h *shown) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &shown{Handler: h.Handler.WithAttrs(attrs), show: h.show}
}

// WithGroup implements slog.Handler.
func (h *shown) WithGroup(name string) slog.Handler {
	return &shown{Handler: h.Handler.WithGroup(name), show: h.show}
}

// sentence is what a person needs of a record: what happened and why.
func sentence(record slog.Record) string {
	text := record.Message
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "err" || attr.Key == "error" {
			text += ": " + strings.TrimSpace(attr.Value.String())
		}
		return true
	})
	return text
}
