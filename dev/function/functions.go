package function

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/feed"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/toolchain"
	"github.com/rouse-run/rouse/internal/routing"
)

// Launcher says how a Function is started; *toolchain.Toolchain does.
type Launcher interface {
	Launch(ctx context.Context, fn manifest.Function, in toolchain.Inputs) (toolchain.Launch, error)
}

// Waker keeps a Function awake that somebody calls.
type Waker interface {
	// Hold keeps it awake until release is called.
	Hold(fn types.NamespacedName) (release func())
}

// Deps are what Functions work with.
type Deps struct {
	Launcher   Launcher
	Supervisor *process.Supervisor
	Feed       *feed.Feed
	// Waker may be nil: then requests to a front port wake nobody.
	Waker Waker
	Log   logr.Logger
}

// Options of Functions. The zero value of each has a default.
type Options struct {
	// FirstPort is where front ports begin. Those that are taken are skipped. Any free ports, when it is 0.
	FirstPort int
	// PublisherAddress and State are handed to the Launcher.
	PublisherAddress, State string
	// Debug tells which Functions are started for a debugger; nil: none.
	Debug func(fn types.NamespacedName) bool
}

// Functions runs the Functions of a folder.
type Functions struct{}

// New makes Functions that do nothing until Run.
func New(Deps, Options) *Functions { return &Functions{} }

// Apply takes what the folder asks for now. A Function that is not in the set is stopped, unless a problem in its
// file may be why: then it goes on as it was, and says so. Launches that failed are tried again.
func (f *Functions) Apply(manifest.Set, []manifest.Problem) {}

// Scale sets how many replicas a Function that scales has, within its bounds.
func (f *Functions) Scale(types.NamespacedName, int) {}

// Status lists all Functions by name.
func (f *Functions) Status() []Status { return nil }

// Changed is closed when the status of a Function has changed since the call.
func (f *Functions) Changed() <-chan struct{} { return nil }

// Watch calls apply with the endpoints of a Function's Service, at once and after each change, one call at a time,
// until ctx ends.
func (f *Functions) Watch(context.Context, types.NamespacedName, int32, func([]routing.Endpoint)) error {
	return nil
}

// Run starts and stops what has to be started and stopped until ctx ends. When it returns nothing runs any more.
func (f *Functions) Run(context.Context) error { return nil }
