package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/gateway"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	warmConnections = 16
	warmFor         = 3 * time.Second

	wakeOn  = "enabled"
	wakeOff = "disabled" // for less than the cooldown, so that the pod stays
)

// warm returns the medians of how many requests a second a Function that is awake answers through its Service, by the same pod
// with waking on and off in turns.
func (b *httpBench) warm(ctx context.Context, rounds int) (on, off float64, err error) {
	measured := map[string][]float64{}
	for round := range rounds + 1 {
		order := []string{wakeOn, wakeOff}
		if round%2 == 1 { // what drifts, drifts for both
			slices.Reverse(order)
		}
		for _, wake := range order {
			if err := b.setWake(ctx, wake); err != nil {
				return 0, 0, err
			}
			rate, err := b.load(ctx, b.urls[warm])
			if err != nil {
				return 0, 0, err
			}
			if round > 0 { // the first warms up
				measured[wake] = append(measured[wake], rate)
				fmt.Printf("%2d/%d  http-wake %-8s %7.0f requests/s\n", round, rounds, wake, rate)
			}
		}
	}
	return rig.Median(measured[wakeOn]), rig.Median(measured[wakeOff]), b.setWake(ctx, wakeOn)
}

// setWake has HTTP wake the warm Function, or not, and waits until its slices are as they are to be.
func (b *httpBench) setWake(ctx context.Context, wake string) error {
	function := &unstructured.Unstructured{}
	function.SetGroupVersionKind(framework.FunctionGVK)
	function.SetNamespace(b.namespace)
	function.SetName(warm)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"rouse.run/http-wake":%q}}}`, wake)
	if err := b.cluster.Patch(ctx, function, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("set http-wake of the warm Function to %s: %w", wake, err)
	}
	return framework.Await(ctx, 30*time.Second, "the slices of the warm Function", func(ctx context.Context) (bool, error) {
		found := &discoveryv1.EndpointSliceList{}
		err := b.cluster.List(ctx, found, client.InNamespace(b.namespace),
			client.MatchingLabels{discoveryv1.LabelServiceName: warm, discoveryv1.LabelManagedBy: activation.ManagedBy})
		return (len(found.Items) > 0) == (wake == wakeOn), err
	})
}

func (b *httpBench) load(ctx context.Context, url string) (float64, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: warmConnections, DisableCompression: true}
	defer transport.CloseIdleConnections()
	var answered, failed atomic.Int64
	began := time.Now()
	var callers sync.WaitGroup
	for range warmConnections {
		callers.Go(func() {
			for time.Since(began) < warmFor && ctx.Err() == nil {
				if requestOnce(ctx, transport, url) == nil {
					answered.Add(1)
				} else {
					failed.Add(1)
				}
			}
		})
	}
	callers.Wait()
	b.errors += int(failed.Load())
	return float64(answered.Load()) / time.Since(began).Seconds(), ctx.Err()
}

func requestOnce(ctx context.Context, transport http.RoundTripper, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	return nil
}

// exposedHost is that of the APIRule.
const exposedHost = "127.0.0.1"

var exposedFunction = types.NamespacedName{Namespace: "bench", Name: "hello"}

// roles are the processes that stand between a caller and a Function, and the Function.
var roles = map[string]rig.Role{"function": functionRole, "proxy": proxyRole, "gateway": gatewayRole}

// outside returns the medians of how many requests a second come through the gateway and a rule that lets everyone in, and through a
// plain reverse proxy, to the same server. They take turns.
func (b *httpBench) outside(ctx context.Context, r *rig.Rig, rounds int) (through, plain float64, err error) {
	function, err := r.Start("function")
	if err != nil {
		return 0, 0, err
	}
	urls := map[string]string{}
	for _, role := range []string{"gateway", "proxy"} {
		process, err := r.Start(role, function.Where)
		if err != nil {
			return 0, 0, err
		}
		urls[role] = process.Where
	}
	measured := map[string][]float64{}
	for round := range rounds + 1 {
		for _, role := range []string{"gateway", "proxy"} {
			rate, err := b.load(ctx, urls[role])
			if err != nil {
				return 0, 0, err
			}
			if round > 0 { // the first warms up
				measured[role] = append(measured[role], rate)
				fmt.Printf("%2d/%d  through the %-8s %7.0f requests/s\n", round, rounds, role, rate)
			}
		}
	}
	return rig.Median(measured["gateway"]), rig.Median(measured["proxy"]), nil
}

// functionRole answers at once, so that what is before it is measured.
func functionRole(ctx context.Context, ready func(string), _ []string) error {
	return rig.Serve(ctx, 0, ready, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
}

// proxyRole is what net/http has for the purpose, with as many connections as callers.
func proxyRole(ctx context.Context, ready func(string), args []string) error {
	to, err := url.Parse(args[0])
	if err != nil {
		return fmt.Errorf("read the address of the Function: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: warmConnections, DisableCompression: true},
	}
	return rig.Serve(ctx, 0, ready, proxy)
}

// gatewayRole is cmd/gateway with the flags' defaults, and one APIRule for one Function that is awake.
func gatewayRole(ctx context.Context, ready func(string), args []string) error {
	to, err := url.Parse(args[0])
	if err != nil {
		return fmt.Errorf("read the address of the Function: %w", err)
	}
	options := gateway.DefaultOptions()
	options.Host, options.DrainDelay = exposedHost, 0
	options.Activator.AllowLoopback = true
	for _, address := range []*string{&options.LoadAddress, &options.MetricsAddress, &options.Entrance.HTTPAddress} {
		if *address, err = freeAddress(ctx); err != nil {
			return err
		}
	}
	g := gateway.New(gateway.Deps{
		Listings: noListings{}, Endpoints: awake(to.Host), Functions: nothingKnown{}, Exposures: exposed,
		Registry: prometheus.NewRegistry(), Log: logr.Discard(),
	}, options)
	go func() {
		if awaitReady(ctx, "http://"+options.MetricsAddress+"/readyz") == nil {
			ready("http://" + options.Entrance.HTTPAddress)
		}
	}()
	return g.Run(ctx)
}

// freeAddress is one that nobody had a moment ago: a gateway that finds it taken ends, and with it the benchmark.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(exposedHost, "0"))
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

func awaitReady(ctx context.Context, url string) error {
	for ctx.Err() == nil {
		if rig.GetJSON(ctx, url, nil) == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}

// exposed is a rule that lets everyone in.
func exposed(ctx context.Context, apply func([]apirule.Exposure)) error {
	apply([]apirule.Exposure{{
		APIRule: exposedFunction, Host: exposedHost,
		Rules: []apirule.Rule{{
			Spec:    &v2.Rule{Path: "/*", Methods: []v2.Method{http.MethodGet}, NoAuth: new(true)},
			Backend: apirule.Backend{Service: exposedFunction, Port: 80, Function: true},
			Timeout: time.Duration(v2.DefaultTimeout) * time.Second,
		}},
	}})
	<-ctx.Done()
	return nil
}

type noListings struct{}

// Watch implements gateway.Listings.
func (noListings) Watch(ctx context.Context, apply func([]activation.Listing)) error {
	apply(nil)
	<-ctx.Done()
	return nil
}

// awake is the address of a Function's pod.
type awake string

// Watch implements activate.Endpoints.
func (a awake) Watch(ctx context.Context, _ types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	apply([]routing.Endpoint{{Address: string(a), Ready: true, Function: true}})
	<-ctx.Done()
	return nil
}

type nothingKnown struct{}

// Condition implements activate.Functions.
func (nothingKnown) Condition(types.NamespacedName) activator.Condition { return activator.Condition{} }
