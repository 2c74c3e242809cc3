package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

const maxHeld = 200_000 // messages of a stream that are read, which is more than there are events

// held are the ids of our events that each stream holds.
type held map[string]map[string]bool

// held reads the streams twice between which events move, so that it misses none that is on its way.
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

// subjects are those that our events have in a stream.
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

// read adds the ids that a stream holds under a subject. One that does not exist holds nothing.
func (s *stage) read(ctx context.Context, name, subject string, ids map[string]bool) error {
	stream, err := s.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find stream %s: %w", name, err)
	}
	sequence := uint64(1)
	for range maxHeld {
		message, err := stream.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(subject))
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
