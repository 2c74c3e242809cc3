package runner

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/toolchain"
)

// Launcher prepares the command that starts a Function; *toolchain.Toolchain implements it.
type Launcher interface {
	Launch(ctx context.Context, fn manifest.Function, in toolchain.Inputs) (toolchain.Launch, error)
}

// Waker keeps a Function awake while a client calls it.
type Waker interface {
	// Hold keeps it awake until release is called.
	Hold(fn types.NamespacedName) (release func())
}

// Deps are what Functions work with.
type Deps struct {
	Launcher   Launcher
	Supervisor *process.Supervisor
	Feed       *process.Feed
	// Waker may be nil: then requests to a front port wake no Function.
	Waker Waker
	Log   logr.Logger
}

// Options of Functions. The zero value of each has a default.
type Options struct {
	// FirstPort is where front ports begin. Those that are taken are skipped. Any free ports, when it is 0.
	FirstPort int
	// Ports is the file that remembers which Function has which port; empty: none does.
	Ports string
	// PublisherAddress and State are handed to the Launcher.
	PublisherAddress, State string
	// Debug reports whether a Function is started for a debugger; nil: none is.
	Debug func(fn types.NamespacedName) bool
	// StartWithin is how long a Function may take until it is ready, and a request waits for that.
	StartWithin time.Duration
	// SilentAfter is how long a replica gives no answer until that is reported.
	SilentAfter time.Duration
	// Steady is how long a Function has to run until its crashes are forgotten.
	Steady time.Duration
	// Backoff is how long it waits after its first crash. It doubles with each up to MaxBackoff.
	Backoff, MaxBackoff time.Duration
	// EndWithin is how long Functions may go on when Run ends.
	EndWithin time.Duration
}

func (o Options) withDefaults() Options {
	for _, entry := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&o.StartWithin, time.Minute},
		{&o.SilentAfter, 5 * time.Second},
		{&o.Steady, 10 * time.Second},
		{&o.Backoff, time.Second},
		{&o.MaxBackoff, 30 * time.Second},
		{&o.EndWithin, 1200 * time.Millisecond},
	} {
		if *entry.value == 0 {
			*entry.value = entry.standard
		}
	}
	if o.Debug == nil {
		o.Debug = func(types.NamespacedName) bool { return false }
	}
	return o
}
