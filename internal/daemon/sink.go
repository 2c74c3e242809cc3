package daemon

import (
	"context"
	"log/slog"
	"slices"

	"github.com/go-logr/logr"
)

// sink is one logger of a Log, with what its lines have in common.
type sink struct {
	log       *Log
	name      string
	component string
	values    []any
	objects   []Object // that its lines are about
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

// WithValues implements logr.LogSink. A controller of controller-runtime has a value for its name, and no name.
func (s *sink) WithValues(pairs ...any) logr.LogSink {
	next := *s
	next.values = slices.Concat(s.values, pairs)
	next.objects = objectsOf(next.values)
	if controller, ok := valueOf(pairs, "controller"); ok && s.name == "" {
		next.component = s.log.process + "/" + controller
	}
	return &next
}
