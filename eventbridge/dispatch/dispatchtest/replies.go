package dispatchtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// journal notes what is published.
type journal struct {
	mu        sync.Mutex
	published []*cloudevent.Event
	refuse    func(n int) error // for the n-th call, from 1; may be nil
	calls     int
}

func (j *journal) Publish(_ context.Context, reply *cloudevent.Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls++
	if j.refuse != nil {
		if err := j.refuse(j.calls); err != nil {
			return err
		}
	}
	j.published = append(j.published, reply)
	return nil
}

func replying() *Sink {
	return NewSink(func(_ context.Context, ev cloudevent.Event, attempt int) (dispatch.Answer, error) {
		return dispatch.Answer{Status: http.StatusOK, Reply: &cloudevent.Event{
			ID: fmt.Sprintf("reply-%s-%d", ev.ID, attempt), Source: "pricing", Type: "order.priced.v1",
		}}, nil
	})
}

func publishesReplies(t *testing.T, b *bench) {
	t.Helper()
	written := &journal{}
	b.replies = written
	b.start(t, replying())
	b.Publish(t, Events(3)...)
	b.settled(t)
	require.Len(t, written.published, 3)
	for _, reply := range written.published {
		require.Equal(t, "1", reply.Extension("rousehops"))
		require.Equal(t, "reply-"+reply.Extension("rousecause")+"-1", reply.ID)
	}
}

func repeatsReplies(t *testing.T, b *bench) {
	t.Helper()
	written := &journal{refuse: func(n int) error {
		if n == 1 {
			return errors.New("no connection")
		}
		return nil
	}}
	b.replies = written
	sink := replying()
	b.start(t, sink)
	b.Publish(t, Events(1)...)
	b.settled(t)
	require.Len(t, written.published, 1)
	require.Equal(t, each(1, 2), sink.Attempts())
}

func ignoresInvalidReplies(t *testing.T, b *bench) {
	t.Helper()
	b.replies = &journal{refuse: func(int) error { return fmt.Errorf("%w: no type", dispatch.ErrUnpublishable) }}
	sink := replying()
	b.start(t, sink)
	b.Publish(t, Events(2)...)
	b.settled(t)
	require.Equal(t, each(2, 1), sink.Attempts())
	require.Empty(t, b.StoredDeadLetters(t))
}

func endsChains(t *testing.T, b *bench) {
	t.Helper()
	written := &journal{}
	b.replies = written
	events := Events(2)
	events[0].SetExtension("rousehops", "2")
	events[1].SetExtension("rousehops", "3")
	b.start(t, replying())
	b.Publish(t, events...)
	b.settled(t)
	require.Len(t, written.published, 1)
	require.Equal(t, "3", written.published[0].Extension("rousehops"))
	deadLetters := b.StoredDeadLetters(t)
	require.Len(t, deadLetters, 1)
	require.Equal(t, failure.TooManyReplies, deadLetters[0].Reason)
}

func endsChainsOfEmittedEvents(t *testing.T, b *bench) {
	t.Helper()
	events := Events(3)
	events[0].SetExtension("rousehops", "3")
	events[1].SetExtension("rousehops", "4")
	events[2].SetExtension("rousehops", "99999999999999999999")
	sink := NewSink(nil)
	b.start(t, sink)
	b.Publish(t, events...)
	b.settled(t)
	require.Equal(t, map[string]int{events[0].ID: 1}, sink.Attempts(), "what has gone too far is not delivered")
	deadLetters := b.StoredDeadLetters(t)
	require.Len(t, deadLetters, 2)
	require.Equal(t, failure.TooManyReplies, deadLetters[0].Reason)
}

type filterFunc func(*cloudevent.Event) (bool, error)

func (f filterFunc) Match(ev *cloudevent.Event) (bool, error) { return f(ev) }

func filters(t *testing.T, b *bench) {
	t.Helper()
	b.filter = filterFunc(func(ev *cloudevent.Event) (bool, error) {
		if ev.ID == "2" {
			return true, errors.New("no such field")
		}
		return ev.ID == "1", nil
	})
	sink := NewSink(nil)
	b.start(t, sink)
	b.Publish(t, Events(4)...)
	b.settled(t)
	require.Equal(t, map[string]int{"1": 1}, sink.Attempts())
	require.Empty(t, b.StoredDeadLetters(t))
}
