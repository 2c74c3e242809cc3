package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	namespaces    = 10
	subscriptions = 10 // of each namespace
	longest       = time.Hour
	// inFlight of each of the others, and how many events may wait for their first attempt.
	inFlight     = 64
	ahead        = 5000
	retriesBatch = 500
	// lateReport progress after so many events, and publish them so often at most.
	lateReport   = 100_000
	publishTries = 10
	// crowd of one namespace asks to come back at one moment, so long after the first of it has failed.
	crowd      = 20_000
	crowdDelay = 20 * time.Second
)

func otherRetries() []routing.Route {
	var routes []routing.Route
	for i := range namespaces * subscriptions {
		routes = append(routes, rig.Route(
			"other-"+strconv.Itoa(i/subscriptions), "other-"+strconv.Itoa(i), benchName, "other-"+strconv.Itoa(i)+".v1", inFlight))
	}
	return routes
}

// holding keeps the retries of others waiting.
type holding struct {
	conn    *broker.Conn
	cancel  context.CancelFunc
	running sync.WaitGroup
	stored  atomic.Int64
	moment  atomic.Pointer[time.Time] // of the crowd
}

// holdUp returns when so many retries of others wait. Until stop, each event of theirs that comes, whether for the first
// time or again, has to wait for up to an hour.
func (b *retriesBench) holdUp(ctx context.Context, count int) (*holding, error) {
	h := &holding{conn: b.conn}
	ctx, h.cancel = context.WithCancel(ctx)
	for _, route := range b.others {
		source := broker.NewSource(b.conn, broker.DefaultStream, route.Consumer, route.Subscription, inFlight)
		h.running.Go(func() {
			for ctx.Err() == nil {
				_ = source.Receive(ctx, nil, func(m *broker.Message) { h.running.Go(func() { h.fail(ctx, m) }) })
			}
		})
	}
	for missing := count; missing > 0; {
		if err := h.publish(ctx, b, missing, len(b.others)); err != nil {
			return nil, h.stopWith(err)
		}
		waiting, err := h.waiting(ctx)
		if err != nil {
			return nil, h.stopWith(err)
		}
		missing = count - int(waiting)
	}
	return h, nil
}

func (h *holding) fail(ctx context.Context, m *broker.Message) {
	wait := rand.N(longest)
	if moment := h.moment.Load(); moment != nil && m.Attempt() == 1 {
		wait = max(time.Until(*moment), 0)
	}
	if err := m.Retry(ctx, wait); err == nil {
		h.stored.Add(1)
	}
}

// gather has the crowd wait.
func (h *holding) gather(ctx context.Context, b *retriesBench) error {
	moment := time.Now().Add(crowdDelay)
	h.moment.Store(&moment)
	err := h.publish(ctx, b, crowd, subscriptions)
	fmt.Printf("%d retries of one namespace ask to come back %s from now\n", crowd, time.Until(moment).Round(time.Second))
	return err
}

// publish returns when as many events of the first of the others have failed.
func (h *holding) publish(ctx context.Context, b *retriesBench, count, first int) error {
	publisher := broker.NewPublisher(h.conn, broker.DefaultPublisherOptions())
	until := h.stored.Load() + int64(count)
	for sent := 0; h.stored.Load() < until; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if sent >= count || h.stored.Load()+ahead < until-int64(count-sent) {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		events := make([]*cloudevent.Event, min(retriesBatch, count-sent))
		for i := range events {
			b.next++
			eventType := "other-" + strconv.Itoa(b.next%first) + ".v1"
			events[i] = &cloudevent.Event{ID: strconv.Itoa(b.next), Source: benchName, Type: eventType}
		}
		if err := publishAll(ctx, publisher, events); err != nil {
			return fmt.Errorf("publish for others: %w", err)
		}
		if sent += len(events); sent%lateReport < retriesBatch && sent > retriesBatch {
			fmt.Printf("%9d of %d stored\n", h.stored.Load(), until)
		}
	}
	return nil
}

// publishAll repeats events that a busy server does not confirm in time; it stores each once.
func publishAll(ctx context.Context, publisher *broker.Publisher, events []*cloudevent.Event) error {
	var err error
	for range publishTries {
		if err = errors.Join(publisher.PublishAll(ctx, events)...); !errors.Is(err, broker.ErrTimeout) {
			return err
		}
	}
	return err
}

func (h *holding) waiting(ctx context.Context) (uint64, error) {
	counts, err := h.conn.WaitingRetries(ctx)
	var all uint64
	for subscription, count := range counts {
		if subscription.Namespace != benchName {
			all += count
		}
	}
	return all, err
}

func (h *holding) stop() {
	h.cancel()
	h.running.Wait()
}

func (h *holding) stopWith(err error) error {
	h.stop()
	return err
}
