package activator

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/endpoint"
)

const (
	// newsEvery is how often a request that waits learns whether the Function turned out not to start.
	newsEvery = 250 * time.Millisecond
	// rewatchPause parts two attempts to follow a Function's pods after one failed.
	rewatchPause = time.Second
)

// function is one that has requests, or had some lately.
type function struct {
	name types.NamespacedName
	all  *Activators
	log  logr.Logger
	pool *endpoint.Pool[struct{}]
	wait queue

	done chan struct{} // closed by end

	// Of Activators, with its lock.
	requests int
	expiry   *time.Timer
}

func newFunction(name types.NamespacedName, all *Activators) *function {
	f := &function{name: name, all: all, done: make(chan struct{})}
	f.log = all.deps.Log.WithName("activate").WithValues("namespace", name.Namespace, "function", name.Name)
	f.pool = endpoint.NewPool(endpoint.Options[struct{}]{
		OnUsable:     f.wait.set,
		DialInterval: all.options.DialInterval,
		Dialer:       all.guard.Dialer(endpoint.ProbeTimeout),
	})
	return f
}

func (f *function) end() { close(f.done) }

// follow keeps the pods' addresses current until the Function is forgotten, or ctx ends.
func (f *function) follow(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-f.done:
			stop()
		case <-ctx.Done():
		}
	}()
	defer f.pool.Dial(ctx)()
	for ctx.Err() == nil {
		err := f.all.deps.Endpoints.Watch(ctx, f.name, activation.ServicePort, f.pool.Apply)
		if err != nil && ctx.Err() == nil {
			f.log.Error(err, "cannot watch endpoints")
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
}

// acquire waits until a pod takes connections, and counts a request at it. waited is true when it had to wait.
func (f *function) acquire(ctx context.Context, e *exchange) (member *endpoint.Member[struct{}], waited bool, refused *refusal) {
	for {
		turn, ok := f.wait.enter(f.all.options.MaxWaiting)
		if !ok {
			return nil, waited, tooMany(f.name, f.all.options.MaxWaiting)
		}
		if turn != nil {
			waited = true
			if refused := f.await(ctx, turn, e); refused != nil {
				return nil, waited, refused
			}
		}
		if member := f.pool.Pick(); member != nil {
			e.stopWaiting()
			return member, waited, nil
		}
		f.wait.answered() // the last pod went away in between
	}
}

// await waits for a turn.
func (f *function) await(ctx context.Context, turn chan struct{}, e *exchange) *refusal {
	refused := e.startWaiting()
	if refused == nil {
		refused = f.hold(ctx, turn, e.began, e.deadline)
	}
	if refused != nil && !f.wait.leave(turn) {
		f.wait.answered() // its turn came meanwhile: the next one's now
	}
	return refused
}

func (f *function) hold(ctx context.Context, turn chan struct{}, began, deadline time.Time) *refusal {
	timer, news := time.NewTimer(time.Until(deadline)), time.NewTicker(newsEvery)
	defer timer.Stop()
	defer news.Stop()
	for {
		known := f.all.deps.Functions.Condition(f.name)
		if known.Broken != "" {
			return cannotStart(f.name, known.Broken)
		}
		select {
		case <-turn:
			return nil
		case <-ctx.Done():
			if !ranOut(ctx) {
				return gone(ctx.Err())
			}
			return tooSlow(f.name, time.Since(began), known.Reason)
		case <-timer.C:
			return tooSlow(f.name, time.Since(began), known.Reason)
		case <-known.Changed:
		case <-news.C:
		}
	}
}
