package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
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

	objects sync.Map // Object to the time.Time until which its debug lines are shown
	count   atomic.Int64
	share   share
	dropped atomic.Uint64
}

// New makes the log of a process. process is the first part of all component names.
func New(w io.Writer, process string, config Config) (*Log, error) {
	l := &Log{process: process, base: config, out: &lockedWriter{w: w}, now: time.Now}
	return l, l.Set(config)
}

// Set changes the log for all subsequent lines. It changes nothing when it fails.
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

// Base returns the Config that the log was made with.
func (l *Log) Base() Config { return l.base }

// Logger returns a logger that writes to the log.
func (l *Log) Logger() logr.Logger { return logr.New(&sink{log: l, component: l.process}) }

// Of returns the Log that a logger writes to, or nil.
func Of(logger logr.Logger) *Log {
	if s, ok := logger.GetSink().(*sink); ok {
		return s.log
	}
	return nil
}

// Dropped returns the number of dropped lines of debugged objects.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Debug shows the lines about an object from debug upwards until the given time. A time in the past has no effect.
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

// debugged returns the first of the objects that is being debugged.
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

// lockedWriter keeps lines whole while handlers are exchanged.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *lockedWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(line) //nolint:wrapcheck // a log has no one to explain it to
}

// sink is one logger of a Log, with the common attributes of its lines.
type sink struct {
	log       *Log
	name      string
	component string
	values    []any
	objects   []Object // the subjects of its lines
}

// Init implements logr.LogSink.
func (s *sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s *sink) Enabled(v int) bool {
	level := slog.Level(-v)
	if level >= s.log.state.Load().levelOf(s.component) {
		return true
	}
	_, ok := s.log.debugged(s.objects)
	return ok && level >= debugLevel
}

// Info implements logr.LogSink.
func (s *sink) Info(v int, message string, pairs ...any) {
	level, state := slog.Level(-v), s.log.state.Load()
	if level >= state.levelOf(s.component) {
		s.write(state, level, nil, message, pairs)
		return
	}
	object, ok := s.log.debugged(s.objects)
	if !ok || level < debugLevel {
		return
	}
	before, ok := s.log.share.take(object.Namespace, state.debugLines, s.log.now())
	if !ok {
		s.log.dropped.Add(1)
		return
	}
	if before > 0 {
		pairs = append(slices.Clip(pairs), "linesLeftOut", before)
	}
	s.write(state, level, nil, message, pairs)
}

// Error implements logr.LogSink.
func (s *sink) Error(err error, message string, pairs ...any) {
	s.write(s.log.state.Load(), slog.LevelError, err, message, pairs)
}

func (s *sink) write(state *state, level slog.Level, err error, message string, pairs []any) {
	record := slog.NewRecord(s.log.now(), level, message, 0)
	record.Add(s.values...)
	if s.name != "" {
		record.AddAttrs(slog.String("logger", s.name))
	}
	if err != nil {
		record.AddAttrs(slog.Any("err", err))
	}
	record.Add(pairs...)
	_ = state.handler.Handle(context.Background(), record)
}

// WithName implements logr.LogSink.
func (s *sink) WithName(name string) logr.LogSink {
	next := *s
	if next.name != "" {
		next.name += "/"
	}
	next.name += name
	next.component += "/" + name
	return &next
}

// WithValues implements logr.LogSink. Controllers of controller-runtime are identified by a value rather than a name.
func (s *sink) WithValues(pairs ...any) logr.LogSink {
	next := *s
	next.values = slices.Concat(s.values, pairs)
	next.objects = objectsOf(next.values)
	if controller, ok := valueOf(pairs, "controller"); ok && s.name == "" {
		next.component = s.log.process + "/" + controller
	}
	return &next
}

const (
	// wholeShare is the number of namespaces that may each use a full share at the same time.
	wholeShare = 4
	// maxBuckets is the number of namespaces above which idle ones are forgotten.
	maxBuckets = 256
)

// share divides the lines of debugged objects: each namespace has a rate, and all together have four times as much.
type share struct {
	mu         sync.Mutex
	namespaces map[string]*bucket
	all        bucket
}

// bucket holds at most the lines of one second.
type bucket struct {
	lines   float64
	filled  time.Time
	dropped int
}

// take consumes a line, and returns the number of lines that the namespace was denied since its last one.
func (s *share) take(namespace string, perSecond int, now time.Time) (dropped int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.namespaces == nil {
		s.namespaces = map[string]*bucket{}
	}
	own := s.namespaces[namespace]
	if own == nil {
		s.forget(perSecond, now)
		own = &bucket{}
		s.namespaces[namespace] = own
	}
	own.fill(perSecond, now)
	s.all.fill(wholeShare*perSecond, now)
	if own.lines < 1 || s.all.lines < 1 {
		own.dropped++
		return 0, false
	}
	own.lines--
	s.all.lines--
	dropped, own.dropped = own.dropped, 0
	return dropped, true
}

// forget drops idle namespaces when there are many.
func (s *share) forget(perSecond int, now time.Time) {
	if len(s.namespaces) < maxBuckets {
		return
	}
	for name, b := range s.namespaces {
		if b.fill(perSecond, now); b.lines >= float64(perSecond) && b.dropped == 0 || len(s.namespaces) >= 2*maxBuckets {
			delete(s.namespaces, name)
		}
	}
}

func (b *bucket) fill(perSecond int, now time.Time) {
	most := float64(perSecond)
	if b.filled.IsZero() {
		b.lines = most
	} else if passed := now.Sub(b.filled); passed > 0 {
		b.lines += most * passed.Seconds()
	}
	b.lines, b.filled = min(b.lines, most), now
}

// Kinds of the objects that lines are about.
const (
	Function     = "Function"
	Subscription = "Subscription"
)

// Object is a Function or a Subscription.
type Object struct{ Kind, Namespace, Name string }

// objectsOf returns the objects that the values of a logger name: subscription and service (of a Function of the same
// name) as namespace/name, function with namespace, and the object that controller-runtime reconciles.
func objectsOf(values []any) []Object {
	var found []Object
	add := func(kind, key string) {
		text, _ := valueOf(values, key)
		namespace, name, ok := strings.Cut(text, "/")
		if !ok && key == "function" {
			name = text
			namespace, ok = valueOf(values, "namespace")
		}
		if ok && name != "" {
			found = append(found, Object{kind, namespace, name})
		}
	}
	add(Subscription, "subscription")
	add(Subscription, "Subscription")
	add(Function, "service")
	add(Function, "function")
	add(Function, "Function")
	return found
}

// valueOf returns the last value of a key, as text.
func valueOf(pairs []any, key string) (text string, ok bool) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] != key {
			continue
		}
		switch value := pairs[i+1].(type) {
		case string:
			text, ok = value, true
		case fmt.Stringer:
			text, ok = value.String(), true
		}
	}
	return text, ok
}
