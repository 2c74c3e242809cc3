package scaler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/scaler/httpload"
)

// HTTPOptions are about calls over HTTP.
type HTTPOptions struct {
	// GatewayService is that of the gateways, which report what they hold.
	// Without a name there are none.
	GatewayService types.NamespacedName
	// ActivatorGrace is how long a Function has to be idle, and its activators
	// listed, before its pods may go. It has to be longer than the slowest node
	// takes to send callers to another endpoint.
	ActivatorGrace time.Duration
}

// Flags implements flags.Options.
func (o *HTTPOptions) Flags(fs *flags.Set) {
	fs.Service(&o.GatewayService, "gateway-service",
		"Service of the gateways, namespace/name, whose endpoints report the requests that they hold; empty: none")
	fs.Duration(&o.ActivatorGrace, "activator-grace",
		"how long a Function that HTTP wakes has to be idle and its gateways listed before its pods may go").AtLeast(0)
}

// Handler serves /healthz, /readyz and /metrics. Not reaching NATS does not make
// the Scaler unready: its answer is then an error, which KEDA must get.
func (s *Scaler) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case s.stopping.Load():
			http.Error(w, "stopping", http.StatusServiceUnavailable)
		case !s.tracker.knowsRoutes():
			http.Error(w, "subscriptions are not known yet", http.StatusServiceUnavailable)
		default:
			_, _ = w.Write([]byte("ok\n"))
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.deps.Registry, promhttp.HandlerOpts{Registry: s.deps.Registry}))
	return mux
}

// errCallsUnknown means that the calls over HTTP could not be counted.
var errCallsUnknown = errors.New("HTTP load is not known")

// countsHTTP reports whether calls over HTTP need the Function awake.
func (f *function) countsHTTP() bool { return f.target.http != httpOff }

// followCalls keeps what is known of the Function's calls current until ctx ends. end waits for that.
func (f *function) followCalls(ctx context.Context) (end func()) {
	stop := f.deps.HTTP.Gateways.OnRequest(f.target.function, f.called)
	if f.held() > 0 { // since before
		f.called()
	}
	var running sync.WaitGroup
	running.Go(func() { f.watchListing(ctx) })
	running.Go(func() { f.watchCalls(ctx) })
	return func() {
		stop()
		running.Wait()
	}
}

// held is the number of requests that the gateways hold, as last reported.
func (f *function) held() uint64 {
	if !f.countsHTTP() {
		return 0
	}
	load, _ := f.deps.HTTP.Gateways.Load(f.target.function) // an error means that there may be more
	return load.Waiting + load.Running
}

// called records that a gateway has taken a request. It runs on the goroutine
// that reads the gateway's stream, so that nothing delays the wake.
func (f *function) called() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.noteCalls(now, func() { f.demand.Called(now) })
}

// look counts the calls now: those at gateways from memory, those at pods by
// asking them.
func (f *function) look(ctx context.Context) (uint64, error) {
	gateways, err := f.deps.HTTP.Gateways.Load(f.target.function)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errCallsUnknown, err)
	}
	pods, err := f.podLoads(ctx)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errCallsUnknown, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now, load := time.Now(), uint64(0)
	f.noteCalls(now, func() {
		load = f.demand.Looked(now, httpload.Look{Gateways: gateways, Pods: pods, Events: f.inFlight})
	})
	return load, nil
}

func (f *function) podLoads(ctx context.Context) (map[string]activation.PodLoad, error) {
	f.mu.Lock()
	endpoints, located := f.endpoints, f.located
	f.mu.Unlock()
	switch {
	case !located:
		return nil, errors.New("endpoints are not known yet")
	case len(endpoints) == 0 || f.target.http != httpEverywhere:
		return nil, nil
	}
	return f.pods.read(ctx, endpoints, f.readPods)
}

// noteCalls records a sign of calls, or that there is none, and follows the change from none to some. One that comes while
// others have not found a pod for a while is no new edge: a Function that cannot start must not cost KEDA a status patch
// per second for as long as it is called. The lock must be held.
func (f *function) noteCalls(now time.Time, note func()) {
	was, last := f.demand.Active(now, 0), f.demand.Busy()
	note()
	if was || !f.demand.Active(now, 0) {
		return
	}
	_, err := f.activity.answer(now, f.options.Refresh.MaxAge, true)
	hasBacklog := err == nil && f.activity.phase == phaseActive
	if !hasBacklog && (!f.starting || now.Sub(last) >= f.options.Push.RepeatFor) {
		f.activity.addEdge(now, causeRequest)
		f.starting = !f.ready
	}
	f.broadcast()
	f.nudge() // the loop announces the replicas that the calls need
}

// active reports whether the Function has work. What is known to be work needs
// nothing else to be known.
func (f *function) active(ctx context.Context) (bool, error) {
	backlog, err := f.answer()
	switch {
	case err == nil && float64(backlog) > f.target.activation:
		return true, nil
	case !f.countsHTTP():
		return false, err
	}
	_, lookErr := f.look(ctx)
	held := f.held()
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.demand.Active(now, held) {
		return true, nil
	}
	if err := errors.Join(err, lookErr); err != nil {
		return false, err
	}
	return !f.demand.MaySleep(now, held, len(f.endpoints) > 0, f.options.HTTP.ActivatorGrace), nil
}
