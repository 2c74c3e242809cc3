package nats

import (
	"fmt"

	"github.com/go-logr/logr"
)

// logger is a nats-server's log on logr.
type logger struct{ log logr.Logger }

// Noticef implements server.Logger.
func (l logger) Noticef(format string, args ...any) { l.log.V(1).Info(fmt.Sprintf(format, args...)) }

// Warnf implements server.Logger.
func (l logger) Warnf(format string, args ...any) { l.log.Info(fmt.Sprintf(format, args...)) }

// Errorf implements server.Logger.
func (l logger) Errorf(format string, args ...any) { l.fail(format, args...) }

// Fatalf implements server.Logger. The server ends itself.
func (l logger) Fatalf(format string, args ...any) { l.fail(format, args...) }

// Debugf implements server.Logger.
func (l logger) Debugf(format string, args ...any) { l.log.V(1).Info(fmt.Sprintf(format, args...)) }

// Tracef implements server.Logger.
func (l logger) Tracef(string, ...any) {}

func (l logger) fail(format string, args ...any) {
	l.log.Error(fmt.Errorf(format, args...), "NATS failed")
}
