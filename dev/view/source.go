package view

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// Source is the local mode that is shown. Each of the following calls handle one after another, first with
// what it holds already, and returns when the context ends.
type Source interface {
	// FollowState gives the state as it is, then again whenever something in it has changed.
	FollowState(ctx context.Context, handle func(State))
	// FollowEvents gives what happens to events, the oldest first. One that is stored and that no Subscription takes has a
	// Message about that.
	FollowEvents(ctx context.Context, handle func(journal.Record))
	// FollowLines gives what Functions write, and what local mode itself reports: a line of the stream "rouse",
	// without a Function where it is about none.
	FollowLines(ctx context.Context, handle func(process.Line))
	// Republish publishes the events of this run once more, with ids of their own, and returns what it did
	// in a few words.
	Republish(ctx context.Context) (string, error)
}

// State is everything but the flow: where local mode is, and how its Functions are. What is not known yet
// is empty.
type State struct {
	Directory string // as the user named it
	Publish   string // the URL that takes events
	Admin     string // the URL of the eventbridge's admin API
	Functions []Function
	APIRules  []APIRule
	Problems  []manifest.Problem
	// DeadLetters is how many are kept of each Subscription.
	DeadLetters map[types.NamespacedName]uint64
}

// APIRule is one of them, and where its host answers: nowhere without a URL.
type APIRule struct {
	Namespace, Name, URL string
	At                   manifest.Position
}

// Function is one Function, how many events wait for it, and for how long it does what it does.
type Function struct {
	runner.Status

	Backlog  int
	DoingFor time.Duration
}

func (f Function) key() types.NamespacedName {
	return types.NamespacedName{Namespace: f.Namespace, Name: f.Name}
}
