package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	eventType  = "attacked.v1" // of the attackers' events; its Subscription's sink sleeps, so that events stay
	tenantType = "tenant.v1"   // of the events that wait for the tenant
)

// ackWait is the default, and short where a bridge has to wait for it.
func (t tenant) ackWait() time.Duration {
	if t.takeover {
		return 5 * time.Second
	}
	return 30 * time.Second
}

// figures are those of one shape.
type figures struct {
	peak            int // MiB
	from            string
	stored, refused int // events of the other publisher
	alive           bool
	got             *gains
	calls           int64
}

// stage runs one shape with a NATS of its own, so that nothing is left of the shape before.
type stage struct {
	rig     *rig.Rig
	shape   shape
	fixture rig.Fixture
	sink    *sink
}

// play has one shape played against a bridge of its own.
func play(ctx context.Context, r *rig.Rig, s shape, duration time.Duration) (f figures, err error) {
	store, err := os.MkdirTemp(r.Dir(), "nats-")
	if err != nil {
		return f, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(store)) }()
	server, err := r.StartNATS(rig.NATS{Name: "nats", Store: store})
	if err != nil {
		return f, err
	}
	defer server.Kill()
	ctx, stop := context.WithCancel(ctx)
	sink, err := startSink(ctx)
	if err != nil {
		stop()
		return f, err
	}
	defer sink.close()
	defer stop()
	st := &stage{rig: r, shape: s, sink: sink, fixture: rig.Fixture{NATS: server.Where, Review: s.reviewTime, Endpoints: map[string][]string{}}}
	if err := st.prepare(ctx); err != nil {
		return f, fmt.Errorf("prepare %q: %w", s.name, err)
	}
	return st.run(ctx, duration)
}

// prepare makes the Subscriptions, and stores the events that wait for them.
func (st *stage) prepare(ctx context.Context) error {
	st.fixture.Routes = append(st.shape.tenant.routes(), rig.Route("bench", "asleep", source, eventType, 10))
	for _, route := range st.shape.tenant.routes() {
		st.fixture.Endpoints[route.Service.String()] = []string{st.sink.address()}
	}
	conn, err := rig.Connect(ctx, st.fixture.NATS)
	if err != nil {
		return err
	}
	err = st.fixture.Prepare(ctx, conn, broker.DefaultStreamOptions(), st.shape.tenant.ackWait())
	if err == nil {
		err = st.store(ctx, conn)
	}
	return errors.Join(err, conn.Close(ctx))
}

func (st *stage) store(ctx context.Context, conn *broker.Conn) error {
	const atATime = 64
	publisher := broker.NewPublisher(conn, broker.DefaultPublisherOptions())
	left := st.shape.tenant.events
	contentType := "text/plain"
	if strings.HasPrefix(st.shape.tenant.data, "{") {
		contentType = "application/json"
	}
	for left > 0 {
		events := make([]*cloudevent.Event, 0, atATime)
		for ; left > 0 && len(events) < atATime; left-- {
			events = append(events, &cloudevent.Event{
				ID: strconv.Itoa(left), Source: source, Type: tenantType, DataContentType: contentType, Data: []byte(st.shape.tenant.data),
			})
		}
		if err := errors.Join(publisher.PublishAll(ctx, events)...); err != nil {
			return err
		}
	}
	return nil
}

// start runs a bridge and returns the addresses of its servers.
func (st *stage) start() (bridge *rig.Process, endpoints map[endpoint]string, err error) {
	flags := append([]string{"--delivery-ack-wait=" + st.shape.tenant.ackWait().String()}, st.shape.flags...)
	bridge, err = st.rig.StartBridge(st.fixture, 0, flags...)
	if err != nil {
		return nil, nil, err
	}
	address := func(i int) string { return strings.TrimPrefix(bridge.Address(i), "http://") }
	return bridge, map[endpoint]string{
		publishing: address(rig.Public), measuring: address(rig.Metrics), administering: address(rig.Admin),
	}, nil
}

func (st *stage) run(ctx context.Context, duration time.Duration) (figures, error) {
	if st.shape.tenant.takeover {
		before, _, err := st.start()
		if err != nil {
			return figures{}, err
		}
		time.Sleep(duration / 4)
		before.Kill()
		duration += st.shape.tenant.ackWait() // until the second bridge gets the events of the first
	}
	bridge, endpoints, err := st.start()
	if err != nil {
		return figures{}, err
	}
	defer bridge.Kill()
	ctx, stop := context.WithTimeout(ctx, duration)
	defer stop()
	f := figures{alive: true, got: &gains{}}
	attacked := make(chan struct{})
	go func() {
		defer close(attacked)
		attack(ctx, endpoints[st.shape.to], st.shape, f.got)
	}()
	f.stored, f.refused = publish(ctx, "http://"+endpoints[publishing])
	<-attacked
	f.calls = st.sink.calls.Load()
	f.peak, f.from, err = bridge.Peak()
	select {
	case <-bridge.Done():
		f.alive = false
		return f, nil
	default:
		return f, err
	}
}
