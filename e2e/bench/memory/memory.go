// Package memory plays hostile loads against a bridge that could make it take unbounded memory, and shows its peak
// beside the chart's limit. An honest publisher publishes meanwhile.
//
// Each shape has a bridge and a NATS of its own. The bridge has the chart's GOMEMLIMIT and, where the system has version 2 of
// control groups and lets us, a group with the chart's limit: then the kernel's memory counts as well, and a bridge that takes
// too much is killed. Elsewhere it is the memory of the process alone.
package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Run is the benchmark.
func Run(ctx context.Context, args []string) error { return rig.Run(ctx, "memory", args, measure, nil) }

func measure(ctx context.Context, r *rig.Rig) error {
	const limit = rig.BridgeMemory
	r.LimitBridges(limit)
	goLimit := cmp.Or(os.Getenv("GOMEMLIMIT"), strconv.FormatInt(limit/10*9, 10)) // as the chart does
	if err := os.Setenv("GOMEMLIMIT", goLimit); err != nil {
		return err
	}
	seconds, scale := rig.Setting("SHAPE_SECONDS", 10), rig.Setting("SCALE_PERCENT", 100)
	fmt.Printf("%d s each, %d %% of connections, Subscriptions and events, limit %d MiB, GOMEMLIMIT %s\n", seconds, scale, limit>>20, goLimit)
	fmt.Printf("%-45s %8s %7s %8s  %s\n", "shape", "peak MiB", "stored", "refused", "the attacker")
	played, worst, killed := 0, 0, 0
	from := ""
	for _, s := range shapes() {
		if named := os.Getenv("SHAPE"); named != "" && named != s.name {
			continue
		}
		f, err := play(ctx, r, s.scaled(scale), time.Duration(seconds)*time.Second)
		if err != nil {
			return err
		}
		fmt.Printf("%-45s %8d %7d %8d  %s\n", s.name, f.peak, f.stored, f.refused, f.gained())
		played, worst, from = played+1, max(worst, f.peak), f.from
		if !f.alive || int64(f.peak)<<20 > limit {
			killed++
		}
	}
	fmt.Printf("measured by %s\n", from)
	fmt.Printf("memory shapes=%d worst_rss_mib=%d limit_mib=%d oom=%d\n", played, worst, limit>>20, killed)
	if killed > 0 {
		return errors.New("a bridge took more memory than the chart gives it")
	}
	return nil
}

// gained formats what the attackers got.
func (f figures) gained() string {
	var parts []string
	for _, part := range []struct {
		of int64
		as string
	}{
		{f.got.sent.Load(), "%d sent"},
		{f.got.taken.Load(), "%d taken"},
		{f.got.refused.Load(), "%d refused"},
		{f.got.broken.Load(), "%d connections cut"},
		{f.calls, "%d deliveries"},
	} {
		if part.of > 0 {
			parts = append(parts, fmt.Sprintf(part.as, part.of))
		}
	}
	if !f.alive {
		parts = append(parts, "the bridge died")
	}
	return strings.Join(parts, ", ")
}

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

// publish is the honest publisher: it sends an event of 1 KiB at a time on a connection of its own, and tries again a
// little later where the bridge asks for it.
func publish(ctx context.Context, where string) (stored, refused int) {
	const pause, soon, tries = 20 * time.Millisecond, 200 * time.Millisecond, 3
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ; ctx.Err() == nil; time.Sleep(pause) {
		ok := false
		for range tries {
			if ok = publishOne(ctx, client, where, stored+refused); ok || ctx.Err() != nil {
				break
			}
			time.Sleep(soon)
		}
		switch {
		case ok:
			stored++
		case ctx.Err() == nil:
			refused++
		}
	}
	return stored, refused
}

func publishOne(ctx context.Context, client *http.Client, where string, id int) bool {
	status, _, err := rig.Event{
		ID: fmt.Sprintf("honest-%d", id), Source: source, Type: "quiet.v1", Data: strings.Repeat("x", 1<<10),
		Header: map[string]string{"Content-Type": "text/plain", "Authorization": "Bearer shop/checkout"},
	}.Publish(ctx, client, where+"/publish")
	return err == nil && status == http.StatusNoContent
}
