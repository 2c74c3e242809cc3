package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/broker"
)

const (
	firstDeletion = 12 * time.Second
	everyDeletion = 10 * time.Second
	deletionBound = time.Minute
	deletionRetry = 100 * time.Millisecond
	consumerPoll  = 5 * time.Millisecond
)

// deletion deletes a stream or a consumer in NATS, as an administrator might.
type deletion struct {
	stream, consumer string         // without a consumer the stream itself
	affects          func(int) bool // the events of the stream that are deleted with it
}

func (d deletion) String() string {
	if d.consumer == "" {
		return "stream " + d.stream
	}
	return "consumer " + d.consumer + " of " + d.stream
}

// deletions returns the deletions in their order.
func (s *stage) deletions() []deletion {
	ofSubscription := func(i int) deletion {
		return deletion{broker.DefaultStream, s.fixture.Routes[i].Consumer, func(id int) bool { return id%len(scenario()) == i }}
	}
	all, none := func(int) bool { return true }, func(int) bool { return false }
	list := []deletion{
		ofSubscription(calm),
		{broker.DefaultStream, "", all},
		{broker.RetryStream, "", all},
		{broker.RetryStream, broker.RetryStream + "-250ms", none},
		{broker.DeadLetterStream, "", all},
	}
	for i := range scenario() {
		if i != calm {
			list = append(list, ofSubscription(i))
		}
	}
	return list
}

// deleteByHand performs deletions until ctx ends.
func (s *stage) deleteByHand(ctx context.Context, logf func(string, ...any)) error {
	pause(ctx, firstDeletion)
	list := s.deletions()
	for ctx.Err() == nil {
		if err := s.delete(context.WithoutCancel(ctx), list[s.deletionsMade%len(list)], logf); err != nil {
			return err
		}
		s.deletionsMade++
		pause(ctx, everyDeletion)
	}
	return nil
}

// delete performs d and records the events that it may have deleted. Publishers are blocked while it reads the streams,
// and until a consumer receives the Subscription's events again: events confirmed before are lost, as documented.
// Publishers continue before a deleted stream is recreated.
func (s *stage) delete(ctx context.Context, d deletion, logf func(string, ...any)) error {
	ctx, cancel := context.WithTimeout(ctx, deletionBound)
	defer cancel()
	s.publishing.Lock()
	defer s.publishing.Unlock()
	before, err := persist(ctx, s.held)
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := persist(ctx, func(ctx context.Context) (any, error) { return nil, s.remove(ctx, d) }); err != nil {
		return fmt.Errorf("delete %s: %w", d, err)
	}
	after, err := persist(ctx, s.held)
	if err != nil {
		return err
	}
	s.note(d, before, after)
	if d.consumer == "" {
		logf("deleted the %s", d)
		return nil
	}
	if err := s.awaitConsumer(ctx, d); err != nil {
		return err
	}
	logf("deleted the %s; after %d ms its messages are taken again", d, time.Since(began).Milliseconds())
	return nil
}

func (s *stage) remove(ctx context.Context, d deletion) error {
	if d.consumer != "" {
		return s.conn.DeleteConsumer(ctx, d.stream, d.consumer)
	}
	if err := s.js.DeleteStream(ctx, d.stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete stream %s: %w", d.stream, err)
	}
	return nil
}

// note records the events that a deletion may have deleted: the events in the stream before, and those that may have
// moved there from another stream since.
func (s *stage) note(d deletion, before, after held) {
	for stream, ids := range before {
		for id := range ids {
			number, err := strconv.Atoi(id)
			if err == nil && d.affects(number) && (stream == d.stream || !after[stream][id]) {
				s.deletedIDs[id] = true
			}
		}
	}
}

func (s *stage) awaitConsumer(ctx context.Context, d deletion) error {
	for ctx.Err() == nil {
		for _, name := range []string{d.consumer, broker.StandbyName(d.consumer)} {
			if _, err := s.conn.Backlog(ctx, d.stream, name); err == nil {
				return nil
			}
		}
		pause(ctx, consumerPoll)
	}
	return fmt.Errorf("the %s is not back after %s", d, deletionBound)
}

// persist retries while servers are unavailable.
func persist[T any](ctx context.Context, try func(context.Context) (T, error)) (result T, err error) {
	for ctx.Err() == nil {
		if result, err = try(ctx); err == nil {
			break
		}
		pause(ctx, deletionRetry)
	}
	return result, err
}
