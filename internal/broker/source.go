package broker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// pullExpires bounds an empty Fetch, and is the longest that the server
	// remembers a request that nobody waits for any more.
	pullExpires   = 5 * time.Second
	pullHeartbeat = time.Second
	// pullLinger is how long a batch waits for its next message when the server
	// does not say that it is complete.
	pullLinger = 25 * time.Millisecond
)

// Source fetches messages from one durable consumer. Any number of sources, in
// any number of processes, may share the consumer: each message goes to one.
type Source struct {
	conn      *Conn
	stream    string
	consumer  string
	subject   string // of the consumer's pull requests
	expires   time.Duration
	heartbeat time.Duration
	linger    time.Duration
	turn      chan struct{} // held by the one who fetches
	inbox     *inbox        // nil until needed
}

// NewSource returns a source for the consumer, which need not exist yet.
func NewSource(c *Conn, stream, consumer string) *Source {
	return &Source{
		conn:      c,
		stream:    stream,
		consumer:  consumer,
		subject:   "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
		expires:   pullExpires,
		heartbeat: pullHeartbeat,
		linger:    pullLinger,
		turn:      make(chan struct{}, 1),
	}
}

// Fetch returns up to limit messages: those that wait now, or else the first that
// comes. After a few seconds without any it returns none and no error. With an
// error it returns no message.
//
// ErrConsumerNotFound means that the consumer is gone, ErrNotConnected that no
// connection came up while Fetch waited for one, ErrStalled that the server does
// not answer for the consumer. After any of them, and whatever happened to the
// connection in between, Fetch may be called again; pause a little before.
//
// When ctx ends, what had arrived is handed back and delivered to somebody else
// at once, which counts as an attempt.
func (s *Source) Fetch(ctx context.Context, limit int) ([]*Message, error) {
	if limit < 1 {
		return nil, nil
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("fetch from %q: %w", s.consumer, ctx.Err())
	}
	defer func() { <-s.turn }()
	messages, err := s.fetch(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("fetch from %q: %w", s.consumer, err)
	}
	return messages, nil
}

// Close gives the source's subscription back. It waits for a Fetch to return.
func (s *Source) Close() {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.closeInbox()
}

func (s *Source) fetch(ctx context.Context, limit int) ([]*Message, error) {
	waiting, cancel := context.WithTimeout(ctx, s.expires)
	defer cancel()
	plain := false
	for {
		if err := s.conn.waitConnected(waiting); err != nil {
			return nil, preferEnd(ctx, err)
		}
		request := pull{batch: limit, expires: s.expires, heartbeat: s.heartbeat, oneShot: true}
		if plain {
			// A batch of one is over with the first message even without the
			// server's word for it.
			request.batch, request.oneShot = 1, false
		}
		messages, err := s.pull(ctx, request)
		switch {
		case errors.Is(err, errLinkChanged) && waiting.Err() == nil:
		case errors.Is(err, errLinkChanged):
			return nil, ErrNotConnected
		case errors.Is(err, errOthersWait) && !plain:
			plain = true
		case errors.Is(err, errOthersWait):
			return nil, nil
		default:
			return messages, err
		}
	}
}

// preferEnd returns the caller's own end of patience if that is the reason.
func preferEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// pull sends one request and waits for its answer.
func (s *Source) pull(ctx context.Context, request pull) ([]*Message, error) {
	link := s.conn.changes()
	if err := s.openInbox(request.batch); err != nil {
		return nil, err
	}
	reply, err := s.inbox.request(s.subject, request.body())
	if err != nil {
		s.closeInbox()
		if errors.Is(err, ErrNotConnected) {
			return nil, errLinkChanged
		}
		return nil, err
	}
	batch := collector{source: s, reply: reply, limit: request.batch}
	return s.finish(ctx, &batch, batch.collect(ctx, link))
}

// finish decides what becomes of the messages and of a request that may still be
// open on the server.
func (s *Source) finish(ctx context.Context, batch *collector, end error) ([]*Message, error) {
	switch {
	case end == nil, isAny(end, errOthersWait, ErrConsumerNotFound):
	case errors.Is(end, errLingered):
		// The request is open for the rest of the batch. What comes until it is
		// withdrawn still belongs to this Fetch.
		in := s.inbox
		s.inbox = nil
		in.drain(batch.add)
		return batch.messages, nil
	case errors.Is(end, errNoResponders):
		end = s.absence(ctx)
	default:
		s.inbox.abandon()
		s.inbox = nil
	}
	if end != nil && ctx.Err() != nil {
		for _, message := range batch.messages {
			message.handBack()
		}
		return nil, ctx.Err()
	}
	if len(batch.messages) > 0 {
		return batch.messages, nil
	}
	return nil, end
}

// absence finds out why nobody answers the pull requests.
func (s *Source) absence(ctx context.Context) error {
	_, err := s.conn.Backlog(ctx, s.stream, s.consumer)
	switch {
	case err == nil:
		return ErrStalled
	case errors.Is(err, ErrNoStream):
		return fmt.Errorf("%w: %w", ErrConsumerNotFound, err)
	default:
		return err
	}
}

func (s *Source) openInbox(room int) error {
	if s.inbox != nil && s.inbox.fits(room) {
		return nil
	}
	s.closeInbox()
	in, err := openInbox(s.conn, room)
	s.inbox = in
	return err
}

func (s *Source) closeInbox() {
	if s.inbox != nil {
		s.inbox.close()
		s.inbox = nil
	}
}
