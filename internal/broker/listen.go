package broker

import (
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// OnPublish calls notify once, at the first message that is published on any of
// the subjects from now on, wildcards included. Then, or after stop, it does
// not listen any more. It goes on listening after a reconnect, but does not
// report what was published in between.
//
// Read the backlog after OnPublish returned, never before. Requests travel behind
// the subscription, so an event is reported, or it came before the subscription
// and belongs to the backlog. The server counts an event a moment after it took
// it, and in a cluster interest takes a moment to spread: read it a second
// time, some 100 ms later, before trusting an empty backlog.
//
// notify runs on its own, so it may block and may call stop. stop may be called
// many times; a notify that was due already may still run after it.
func (c *Conn) OnPublish(subjects []string, notify func()) (stop func(), err error) {
	if len(subjects) == 0 {
		return nil, errors.New("listen for publishes: no subject")
	}
	l := &listener{notify: notify}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, subject := range subjects {
		subscription, err := c.nc.Subscribe(subject, func(*nats.Msg) { l.onMessage() })
		if err == nil {
			l.subscriptions = append(l.subscriptions, subscription)
			// The server itself sends no second message, however many come.
			err = subscription.AutoUnsubscribe(1)
		}
		if err != nil {
			l.end()
			return nil, fmt.Errorf("listen for publishes on %q: %w", subject, mapError(err))
		}
	}
	return l.stop, nil
}

// listener is one call of OnPublish.
type listener struct {
	notify func()

	mu            sync.Mutex
	ended         bool
	subscriptions []*nats.Subscription
}

func (l *listener) onMessage() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.end()
	go l.notify()
}

func (l *listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.end()
	}
}

// end unsubscribes everywhere; the lock is held. A subscription that is gone
// already, because its message came or the connection was closed, is fine.
func (l *listener) end() {
	l.ended = true
	for _, subscription := range l.subscriptions {
		_ = subscription.Unsubscribe()
	}
	l.subscriptions = nil
}
