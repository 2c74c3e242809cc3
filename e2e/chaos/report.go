package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

const maxHeld = 200_000 // messages read of a stream; exceeds the number of events

// held contains the ids of our events in each stream.
type held map[string]map[string]bool

// held reads the streams between which events move twice, so that it misses no event in transit.
func (s *stage) held(ctx context.Context) (held, error) {
	all := held{broker.DefaultStream: {}, broker.RetryStream: {}, broker.DeadLetterStream: {}}
	for _, stream := range []string{
		broker.DefaultStream, broker.RetryStream, broker.DefaultStream, broker.RetryStream, broker.DeadLetterStream,
	} {
		for _, subject := range s.subjects(stream) {
			if err := s.read(ctx, stream, subject, all[stream]); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// subjects returns the subjects of our events in a stream.
func (s *stage) subjects(stream string) []string {
	switch stream {
	case broker.DefaultStream:
		subjects := []string{routing.SubjectPrefix + "." + source + ".>"}
		for _, route := range s.fixture.Routes[:len(scenario())] {
			subjects = append(subjects, route.Redelivery)
		}
		return subjects
	case broker.RetryStream:
		return []string{"rouse.*.*.*." + namespace + ".>"}
	default:
		return []string{routing.DeadLetterPrefix + "." + namespace + ".>"}
	}
}

// requestTimeout bounds a request of read: nobody answers the one that a server had received when it was stopped.
const requestTimeout = 2 * time.Second

// read adds the ids in a stream under a subject. A missing stream contains none.
func (s *stage) read(ctx context.Context, name, subject string, ids map[string]bool) error {
	finding, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := s.js.Stream(finding, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find stream %s: %w", name, err)
	}
	sequence := uint64(1)
	for range maxHeld {
		message, err := getMessage(ctx, stream, sequence, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
			return nil
		case err != nil:
			return fmt.Errorf("read stream %s: %w", name, err)
		}
		ids[message.Header.Get("ce-id")] = true
		sequence = message.Sequence + 1
	}
	return fmt.Errorf("stream %s holds more than %d events", name, maxHeld)
}

func getMessage(ctx context.Context, stream jetstream.Stream, sequence uint64, subject string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return stream.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(subject))
}

const (
	keeperRetry    = 250 * time.Millisecond
	keeperInterval = 5 * time.Second // for deletions without an advisory, while a server was unavailable
)

// keep recreates deleted streams and consumers like the controller: at once after a server's advisory, and at regular
// intervals.
func (s *stage) keep(ctx context.Context) error {
	conn, err := rig.Connect(ctx, s.fixture.NATS)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	deleted := make(chan struct{}, 1)
	stop, err := conn.OnDeleted([]string{broker.DefaultStream, broker.RetryStream, broker.DeadLetterStream}, func(string, string) {
		select {
		case deleted <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	for ctx.Err() == nil {
		wait := keeperInterval
		if s.fixture.Prepare(ctx, conn, s.streams(), ackWait) != nil { // a server is unavailable
			wait = keeperRetry
		}
		select {
		case <-deleted:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return nil
}

func (s *stage) streams() broker.StreamOptions {
	streams := broker.DefaultStreamOptions()
	streams.Replicas = servers
	return streams
}

// calm is the Subscription whose sink always works: delays of its events have other causes.
const calm = 0

// latency is the time in milliseconds from the first attempt to publish an event until the sink received it.
type latency struct{ p50, p99 float64 }

func (s *stage) latency() latency {
	var took []time.Duration
	for id, at := range s.journals[calm].first {
		took = append(took, at.Sub(s.events[id].begun))
	}
	slices.Sort(took)
	return latency{p50: rig.Milliseconds(took, 50), p99: rig.Milliseconds(took, 99)}
}

const maxNamed = 10 // lost events that are listed per Subscription

// account counts the fates of a Subscription's events. Each is counted once: one that was both delivered and
// dead-lettered, because its bridge was killed in between, as delivered. Deleted are missing events that were in a
// stream or a consumer when the run deleted it.
type account struct{ published, acked, deadLettered, pending, lost, deleted, duplicates int }

func (a *account) add(b account) {
	a.published, a.acked, a.deadLettered = a.published+b.published, a.acked+b.acked, a.deadLettered+b.deadLettered
	a.pending, a.lost, a.deleted, a.duplicates = a.pending+b.pending, a.lost+b.lost, a.deleted+b.deleted, a.duplicates+b.duplicates
}

// report prints the account of each Subscription, and returns the sum.
func (s *stage) report(ctx context.Context) (account, error) {
	left, err := s.held(ctx)
	if err != nil {
		return account{}, err
	}
	fmt.Printf("\n%-12s %9s %9s %12s %9s %9s %9s %10s\n",
		"Subscription", "published", "acked", "deadlettered", "pending", "lost", "deleted", "duplicates")
	var all account
	overtaken := 0
	for i, b := range scenario() {
		if err := s.journals[i].read(); err != nil {
			return account{}, err
		}
		own := s.account(i, left)
		waiting, err := s.backlogOf(ctx, i)
		if err != nil {
			return account{}, err
		}
		own.pending = max(own.pending, int(waiting.total()))
		fmt.Printf("%-12s %9d %9d %12d %9d %9d %9d %10d\n",
			b.name, own.published, own.acked, own.deadLettered, own.pending, own.lost, own.deleted, own.duplicates)
		all.add(own)
		overtaken += s.journals[i].order.overtaken
	}
	fmt.Printf("order: %d events were taken after a later one of their key\n", overtaken)
	if overtaken > 0 {
		return all, errors.New("events overtook others of their key")
	}
	return all, nil
}

// account looks up each published event of a Subscription by its id.
func (s *stage) account(subscription int, left held) account {
	var a account
	for number := subscription; number < len(s.events); number += len(s.journals) {
		if !s.events[number].published {
			continue
		}
		a.published++
		id, times := strconv.Itoa(number), s.journals[subscription].times[number]
		switch {
		case times > 0:
			a.acked++
			a.duplicates += times - 1
		case left[broker.DeadLetterStream][id]:
			a.deadLettered++
		case left[broker.DefaultStream][id], left[broker.RetryStream][id]:
			a.pending++
		case s.deletedIDs[id]:
			a.deleted++
		default:
			if a.lost++; a.lost <= maxNamed {
				fmt.Printf("lost: event %s of %s\n", id, s.fixture.Routes[subscription].Subscription)
			}
		}
	}
	return a
}
