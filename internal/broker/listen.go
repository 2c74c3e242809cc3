package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
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

// The prefixes of the subjects of announcements. The namespace and the name of the Function follow.
const (
	idlePrefix   = "rouse.idle."
	wantedPrefix = "rouse.wanted."
	wokenPrefix  = "rouse.woken."
)

const (
	// maxAnnouncements bounds the announcements that wait. Further ones are dropped: each is repeated.
	maxAnnouncements = 4096
	// mostWanted bounds the replicas of an announcement.
	mostWanted = 1_000_000
)

// AnnounceIdle announces that a Function is idle. The announcement is not stored and needs no subscriber: repeat it for as long
// as the Function is idle.
func (c *Conn) AnnounceIdle(function types.NamespacedName) error {
	return c.announceFunction(idlePrefix, function, nil)
}

// WatchIdle calls apply with each Function that is announced to be idle, one call at a time, until ctx ends. It goes on
// after a reconnect; what is announced meanwhile is not reported. Anyone who may publish may announce anything.
func (c *Conn) WatchIdle(ctx context.Context, apply func(types.NamespacedName)) error {
	return c.watchFunctions(ctx, idlePrefix, func(function types.NamespacedName, _ []byte) { apply(function) })
}

// AnnounceWanted announces how many replicas the work of a Function needs. It holds like [Conn.AnnounceIdle].
func (c *Conn) AnnounceWanted(function types.NamespacedName, replicas int) error {
	return c.announceFunction(wantedPrefix, function, strconv.AppendInt(nil, int64(min(replicas, mostWanted)), 10))
}

// WatchWanted calls apply with each announced number of replicas, at least 1. It holds like [Conn.WatchIdle].
func (c *Conn) WatchWanted(ctx context.Context, apply func(function types.NamespacedName, replicas int)) error {
	return c.watchFunctions(ctx, wantedPrefix, func(function types.NamespacedName, data []byte) {
		if replicas, err := strconv.Atoi(string(data)); err == nil && replicas > 0 && replicas <= mostWanted {
			apply(function, replicas)
		}
	})
}

// mostWoken bounds what is announced of a wake.
const mostWoken = 1024

// AnnounceWoken announces the course of a wake that is over. Nobody needs to hear it.
func (c *Conn) AnnounceWoken(function types.NamespacedName, course []byte) error {
	return c.announceFunction(wokenPrefix, function, course)
}

// WatchWoken calls apply with the course of each wake. It holds like [Conn.WatchIdle].
func (c *Conn) WatchWoken(ctx context.Context, apply func(function types.NamespacedName, course []byte)) error {
	return c.watchFunctions(ctx, wokenPrefix, func(function types.NamespacedName, course []byte) {
		if len(course) <= mostWoken {
			apply(function, course)
		}
	})
}

func (c *Conn) announceFunction(prefix string, function types.NamespacedName, data []byte) error {
	subject := prefix + function.Namespace + "." + function.Name
	if !isLabel(function.Namespace) || !isLabel(function.Name) {
		return fmt.Errorf("announce %q: the namespace and the name of a Function must be DNS labels", subject)
	}
	if err := c.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("announce %s: %w", subject, mapError(err))
	}
	return nil
}

func (c *Conn) watchFunctions(ctx context.Context, prefix string, apply func(function types.NamespacedName, data []byte)) error {
	return c.watchSubject(ctx, prefix+"*.*", func(message *nats.Msg) {
		if function, ok := announcedFunction(prefix, message.Subject); ok {
			apply(function, message.Data)
		}
	})
}

// watchSubject calls apply with the messages of core NATS on a subject, one at a time, until ctx ends. Further ones than
// maxAnnouncements that wait are dropped.
func (c *Conn) watchSubject(ctx context.Context, subject string, apply func(*nats.Msg)) error {
	messages := make(chan *nats.Msg, maxAnnouncements)
	subscription, err := c.nc.ChanSubscribe(subject, messages)
	if err != nil {
		return fmt.Errorf("listen to announcements %s: %w", subject, mapError(err))
	}
	defer func() { _ = subscription.Unsubscribe() }() // fails only when the connection is gone
	for {
		select {
		case <-ctx.Done():
			return nil
		case message := <-messages:
			apply(message)
		}
	}
}

// announcedFunction reads the Function from the subject of an announcement.
func announcedFunction(prefix, subject string) (types.NamespacedName, bool) {
	rest, found := strings.CutPrefix(subject, prefix)
	namespace, name, pair := strings.Cut(rest, ".")
	return types.NamespacedName{Namespace: namespace, Name: name}, found && pair && isLabel(namespace) && isLabel(name)
}

// isLabel reports whether a namespace or a Function may have this name, which then is one token of a subject.
func isLabel(text string) bool { return len(validation.IsDNS1123Label(text)) == 0 }
