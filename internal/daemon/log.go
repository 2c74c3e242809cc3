package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// Log is the log of a process.
type Log struct {
	process string
	base    Config
	out     *lockedWriter
	now     func() time.Time
	state   atomic.Pointer[state]

	objects sync.Map // Object to the time.Time until which it is debugged
	count   atomic.Int64
	share   share
	dropped atomic.Uint64
}

// New makes the log of a process, which is the name of all its components.
func New(w io.Writer, process string, config Config) (*Log, error) {
	l := &Log{process: process, base: config, out: &lockedWriter{w: w}, now: time.Now}
	return l, l.Set(config)
}

// Set changes the log for all lines from now on. It changes nothing when it fails.
func (l *Log) Set(config Config) error {
	level, err := ParseLevel(config.Level)
	if err != nil {
		return fmt.Errorf("level %w", err)
	}
	next := &state{level: level, debugLines: config.DebugLines}
	if len(config.Components) > 0 {
		next.components = make(map[string]slog.Level, len(config.Components))
	}
	for name, text := range config.Components {
		if next.components[name], err = ParseLevel(text); err != nil {
			return fmt.Errorf("level of %s %w", name, err)
		}
	}
	next.handler = NewHandler(l.out, config.Format, level)
	l.state.Store(next)
	return nil
}

// Base is the Config that the log was made with.
func (l *Log) Base() Config { return l.base }

// Logger writes to the log.
func (l *Log) Logger() logr.Logger { return logr.New(&sink{log: l, component: l.process}) }

// Of is the Log that a logger writes to, nil for one of another kind.
func Of(logger logr.Logger) *Log {
	if s, ok := logger.GetSink().(*sink); ok {
		return s.log
	}
	return nil
}

// Dropped is how many lines were left out, of objects that are debugged.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Debug shows the lines about an object from debug upwards until then; never, for a time that has passed.
func (l *Log) Debug(object Object, until time.Time) {
	if !until.After(l.now()) {
		l.End(object)
		return
	}
	if _, known := l.objects.Swap(object, until); !known {
		l.count.Add(1)
	}
}

// End ends Debug of an object.
func (l *Log) End(object Object) {
	if _, known := l.objects.LoadAndDelete(object); known {
		l.count.Add(-1)
	}
}

// debugged is the first of the objects that is debugged now.
func (l *Log) debugged(objects []Object) (Object, bool) {
	if len(objects) == 0 || l.count.Load() == 0 {
		return Object{}, false
	}
	for _, object := range objects {
		until, ok := l.objects.Load(object)
		if !ok {
			continue
		}
		if at, ok := until.(time.Time); ok && l.now().Before(at) {
			return object, true
		}
		if l.objects.CompareAndDelete(object, until) {
			l.count.Add(-1)
		}
	}
	return Object{}, false
}

// lockedWriter keeps lines whole while one handler takes the place of another.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *lockedWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(line) //nolint:wrapcheck // a log has nobody to explain it to
}
