package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/gateway"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/routing"
)

// exposedHost is that of the APIRule.
const exposedHost = "127.0.0.1"

var exposedFunction = types.NamespacedName{Namespace: "bench", Name: "hello"}

// roles are the processes that stand between a caller and a Function, and the Function.
var roles = map[string]rig.Role{"function": functionRole, "proxy": proxyRole, "gateway": gatewayRole}

// outside returns the medians of how many requests a second come through the gateway and a rule that lets everyone in, and through a
// plain reverse proxy, to the same server. They take turns.
func (b *bench) outside(ctx context.Context, r *rig.Rig, rounds int) (through, plain float64, err error) {
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
