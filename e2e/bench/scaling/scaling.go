// Package scaling measures the scaler as KEDA uses it at size: thousands of ScaledObjects that are polled over one
// connection, each with a stream, and wakes of a thousand of them within a second.
//
// The scaler is a process with a real nats-server, and durable consumers of all Subscriptions. Beside it the same calls go
// to a server that knows nothing: it answers constants, and sends true at a message. Kubernetes is left out: the scaler has
// its routes from this package, and finds no endpoints.
package scaling

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	namespace = "bench"
	inFlight  = 10
	ackWait   = 30 * time.Second
	makers    = 8
	// settles is the time after which the scaler has read each backlog twice.
	settles = 25 * time.Second
)

// Run measures the scaler. SCALED_OBJECTS, WAKES, POLL_SECONDS and ROUND_SECONDS change what it does.
func Run(ctx context.Context, args []string) error {
	return rig.Run(ctx, "scaler", args, measure, map[string]rig.Role{"scaler": scalerRole, "bare": bareRole})
}

// figures holds what was measured of one server.
type figures struct {
	calls       float64 // per second
	callP99     float64 // milliseconds
	wakeP50     float64
	wakeP99     float64
	rss         int // MiB, at most
	cpu         float64
	unheard     int
	failedCalls int
}

func measure(ctx context.Context, r *rig.Rig) error {
	count, wakes := rig.Setting("SCALED_OBJECTS", 10_000), rig.Setting("WAKES", 1_000)
	poll, seconds := rig.Setting("POLL_SECONDS", 10), rig.Setting("ROUND_SECONDS", 30)
	if wakes > count/2 {
		wakes = count / 2
	}
	server, err := r.StartNATS(rig.NATS{Name: "nats"})
	if err != nil {
		return err
	}
	routes := routesOf(count)
	begun := time.Now()
	if err := prepare(ctx, server.Where, routes); err != nil {
		return err
	}
	fmt.Printf("%d consumers are made after %.0f s; each ScaledObject is polled every %d s and has a stream\n", count, time.Since(begun).Seconds(), poll)
	fmt.Printf("%-7s %9s %9s %11s %11s %9s %7s %8s %7s\n", "server", "calls/s", "p99 ms", "wake p50 ms", "wake p99 ms", "RSS MiB", "CPU %", "unheard", "failed")
	all := map[string]figures{}
	for i, role := range []string{"bare", "scaler"} {
		f, err := measureServer(ctx, r, role, server.Where, load{
			routes: routes, woken: routes[i*wakes : (i+1)*wakes], poll: time.Duration(poll) * time.Second, round: time.Duration(seconds) * time.Second,
		})
		if err != nil {
			return fmt.Errorf("measure %s: %w", role, err)
		}
		all[role] = f
		fmt.Printf("%-7s %9.0f %9.2f %11.2f %11.2f %9d %7.1f %8d %7d\n", role, f.calls, f.callP99, f.wakeP50, f.wakeP99, f.rss, f.cpu, f.unheard, f.failedCalls)
	}
	s, bare := all["scaler"], all["bare"]
	fmt.Printf("scaler n=%d rpc_per_s=%.0f p99_ms=%.2f rss_mib=%d wake_to_true_p99_ms=%.1f wakes=%d unheard=%d failed=%d bare_p99_ms=%.2f bare_wake_to_true_p99_ms=%.1f\n",
		count, s.calls, s.callP99, s.rss, s.wakeP99, wakes, s.unheard, s.failedCalls, bare.callP99, bare.wakeP99)
	return nil
}

func routesOf(count int) []routing.Route {
	routes := make([]routing.Route, count)
	for i := range routes {
		name := fmt.Sprintf("f%d", i)
		routes[i] = rig.Route(namespace, name, "bench", name, inFlight)
	}
	return routes
}

// prepare makes the stream and the consumers: the controller's part, which is not measured.
func prepare(ctx context.Context, url string, routes []routing.Route) error {
	streams := broker.DefaultStreamOptions()
	if err := (rig.Fixture{NATS: url}).PrepareAlone(ctx, streams, ackWait); err != nil {
		return err
	}
	conn, err := rig.Connect(ctx, url)
	if err != nil {
		return err
	}
	group, making := errgroup.WithContext(ctx)
	group.SetLimit(makers)
	for _, route := range routes {
		group.Go(func() error {
			return conn.EnsureConsumer(making, streams.Name, broker.Consumer{
				Name: route.Consumer, Subjects: route.Subjects, MaxAckPending: route.MaxInFlight, AckWait: ackWait,
			})
		})
	}
	return errors.Join(group.Wait(), conn.Close(ctx))
}

// load is what one server gets.
type load struct {
	routes, woken []routing.Route
	poll, round   time.Duration
}

func measureServer(ctx context.Context, r *rig.Rig, role, url string, l load) (f figures, err error) {
	process, err := r.Start(role, url, strconv.Itoa(len(l.routes)))
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, process.Stop()) }()
	publisher, err := nats.Connect(url)
	if err != nil {
		return f, fmt.Errorf("connect: %w", err)
	}
	defer publisher.Close()
	k, err := connect(ctx, process.Where, l.routes)
	if err != nil {
		return f, err
	}
	defer k.close()
	polling, cancel := context.WithCancel(ctx)
	defer cancel() // before close, which waits for the polls
	k.startPolling(polling, l.poll)
	if !sleep(ctx, settles) {
		return f, ctx.Err()
	}
	before, err := process.CPU()
	if err != nil {
		return f, err
	}
	k.reset()
	if !sleep(ctx, l.round) {
		return f, ctx.Err()
	}
	latencies, failed := k.reset()
	after, err := process.CPU()
	if err != nil {
		return f, err
	}
	f.calls, f.failedCalls = float64(len(latencies))/l.round.Seconds(), failed
	f.callP99 = rig.Milliseconds(latencies, 99)
	f.cpu = (after - before).Seconds() / l.round.Seconds() * 100
	waits, err := k.wake(ctx, publisher, l.woken)
	if err != nil {
		return f, err
	}
	f.unheard = len(l.woken) - len(waits)
	f.wakeP50, f.wakeP99 = rig.Milliseconds(waits, 50), rig.Milliseconds(waits, 99)
	f.rss, err = process.PeakRSS()
	return f, err
}

// sleep is false when ctx ends first.
func sleep(ctx context.Context, long time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(long):
		return true
	}
}
