package view

import (
	"context"
	"time"
)

// Source is the local mode that is shown. Each of the following calls take one after another, first with
// what it holds already, and returns when the context ends.
type Source interface {
	// FollowState gives the state as it is, then again whenever something in it has changed.
	FollowState(ctx context.Context, take func(State))
	// FollowEvents gives what happens to events, the oldest first.
	FollowEvents(ctx context.Context, take func(Record))
	// FollowLines gives what Functions write, and what local mode says itself: a line of the stream "rouse",
	// without a Function where it is about none.
	FollowLines(ctx context.Context, take func(Line))
	// PublishAgain publishes the events of this run once more, with ids of their own, and says what it did
	// in a few words.
	PublishAgain(ctx context.Context) (string, error)
}

// State is everything but the flow: where local mode is, and how its Functions are. What is not known yet
// is empty.
type State struct {
	Directory string // as the user named it
	Publish   string // the URL that takes events
	Admin     string // the URL of the eventbridge's admin API
	Functions []Function
	Problems  []Problem
}

// Function is one Function, and how many events wait for it.
type Function struct {
	Status
	Backlog int
}

// Status is how a Function is.
type Status struct {
	Namespace, Name, Runtime, URL string
	Phase                         string // preparing, asleep, waking, ready, reloading, failing
	LastError, Debug              string
	Desired, Ready                int
	Wakes, Restarts               int
	LastWake                      time.Duration
	At                            Position
}

// Position is a line of a file of the user.
type Position struct {
	File         string
	Line, Column int
}

// Problem is something wrong in the user's files.
type Problem struct {
	Position
	Object, Message string
	Warning         bool
}

// Line is one line that a Function wrote.
type Line struct {
	Time                                       time.Time
	Namespace, Function, Replica, Stream, Text string
}

// Record is something that happened to an event.
type Record struct {
	Time                          time.Time
	Kind                          Kind
	ID, Source, Type              string
	Cause, Trace                  string
	Namespace, Subscription, Sink string
	Attempt, Status               int
	Reason                        string
	Began                         time.Time
	Took                          time.Duration
	Due                           *time.Time
}

// Kind is what happened.
type Kind string
