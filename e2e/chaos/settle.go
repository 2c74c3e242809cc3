package main

import (
	"context"
	"time"

	"github.com/rouse-run/rouse/internal/broker"
)

const (
	settleBound = 5 * time.Minute
	quietPolls  = 3 // so that an event on its way between two streams is not missed
)

// settle waits until nothing is pending, or for as long as is reasonable.
func (s *stage) settle(ctx context.Context, logf func(string, ...any)) error {
	deadline := time.Now().Add(settleBound)
	for quiet := 0; quiet < quietPolls && time.Now().Before(deadline); {
		pause(ctx, time.Second)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b, err := s.backlog(ctx)
		switch {
		case err != nil:
			quiet = 0
			logf("the backlog cannot be read: %v", err)
			continue
		case b.total() == 0:
			quiet++
		default:
			quiet = 0
		}
		logf("taken by sinks %6d   not delivered %6d   in delivery %4d   waiting for a retry %4d", s.delivered(), b.pending, b.inDelivery, b.retries)
	}
	return nil
}

// backlog counts the events of Subscriptions that are not settled.
type backlog struct{ pending, inDelivery, retries uint64 }

func (b backlog) total() uint64 { return b.pending + b.inDelivery + b.retries }

func (s *stage) backlog(ctx context.Context) (b backlog, err error) {
	for i := range s.journals { // of the hostile tenant something always waits
		own, err := s.backlogOf(ctx, i)
		if err != nil {
			return b, err
		}
		b.pending, b.inDelivery, b.retries = b.pending+own.pending, b.inDelivery+own.inDelivery, b.retries+own.retries
	}
	return b, nil
}

func (s *stage) backlogOf(ctx context.Context, i int) (backlog, error) {
	route := s.fixture.Routes[i]
	waiting, err := s.conn.WaitingRetries(ctx)
	if err != nil {
		return backlog{}, err
	}
	at, err := s.conn.Backlog(ctx, broker.DefaultStream, route.Consumer)
	if err != nil {
		return backlog{}, err
	}
	detached, err := s.conn.DetachedCallsOf(ctx, route.Subscription)
	if err != nil {
		return backlog{}, err
	}
	return backlog{pending: at.Pending, inDelivery: at.AckPending + detached, retries: waiting[route.Subscription]}, nil
}
