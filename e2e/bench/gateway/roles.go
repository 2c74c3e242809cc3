package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/gateway"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/routing"
)

// host is that of the APIRule, and where all listen.
const host = "127.0.0.1"

const keysPath = "/keys"

// benchName is that of what needs one.
const benchName = "bench"

var function = types.NamespacedName{Namespace: benchName, Name: "hello"}

// functionRole is a Function that answers at once, so that what is before it is measured. It publishes the keys of the tokens' issuer,
// which are its argument.
func functionRole(ctx context.Context, ready func(string), args []string) error {
	return rig.Serve(ctx, 0, ready, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == keysPath {
			_, _ = io.WriteString(w, args[0])
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "hello")
	}))
}

// proxyRole is what net/http has for the purpose, with as many connections as clients.
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
		Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true},
	}
	return rig.Serve(ctx, 0, func(where string) { ready(strings.TrimPrefix(where, "http://")) }, proxy)
}

// gatewayRole is cmd/gateway with the flags' defaults, and one APIRule for one Function that is awake.
func gatewayRole(ctx context.Context, ready func(string), args []string) error {
	to, err := url.Parse(args[0])
	if err != nil {
		return fmt.Errorf("read the address of the Function: %w", err)
	}
	options := gateway.DefaultOptions()
	options.Host, options.DrainDelay = host, 0
	options.Activator.AllowLoopback = true
	for _, address := range []*string{&options.LoadAddress, &options.MetricsAddress, &options.Entrance.HTTPAddress} {
		if *address, err = freeAddress(ctx); err != nil {
			return err
		}
	}
	g := gateway.New(gateway.Deps{
		Listings: rig.NoListings{}, Endpoints: awake(to.Host), Functions: nothingKnown{}, Exposures: exposed(args[0] + keysPath),
		Registry: daemon.NewRegistry(), Log: logr.Discard(),
	}, options)
	stopProfile, err := rig.Profile(ctx)
	if err != nil {
		return err
	}
	defer stopProfile()
	go func() {
		if awaitReady(ctx, "http://"+options.MetricsAddress+"/readyz") == nil {
			ready(options.Entrance.HTTPAddress)
		}
	}()
	rig.LimitMemory()
	return daemon.RunOn(ctx, g.Run, daemon.PaceCollector)
}

// freeAddress is one that nobody had a moment ago: a gateway that finds it taken ends, and with it the benchmark.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
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

// exposed has a rule for each kind of request.
func exposed(keys string) gateway.WatchExposures {
	open := new(true)
	tokens := &v2.JWT{Authentications: []*v2.JWTAuthentication{{Issuer: issuerName, JWKSURI: keys}}}
	exposure := apirule.Exposure{APIRule: function, Host: host}
	for _, spec := range []*v2.Rule{
		{Path: get, Methods: []v2.Method{http.MethodGet}, NoAuth: open},
		{Path: post, Methods: []v2.Method{http.MethodPost}, NoAuth: open},
		{Path: known, Methods: []v2.Method{http.MethodGet}, JWT: tokens},
		{Path: fresh, Methods: []v2.Method{http.MethodGet}, JWT: tokens},
	} {
		exposure.Rules = append(exposure.Rules, apirule.Rule{
			Spec: spec, Backend: apirule.Backend{Service: function, Port: 80, Wakes: true}, Timeout: time.Duration(v2.DefaultTimeout) * time.Second,
		})
	}
	return func(ctx context.Context, apply func([]apirule.Exposure)) error {
		apply([]apirule.Exposure{exposure})
		<-ctx.Done()
		return nil
	}
}

// awake is the address of a Function's pod.
type awake string

// Watch implements activator.Endpoints.
func (a awake) Watch(ctx context.Context, _ types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	apply([]routing.Endpoint{{Address: string(a), Ready: true, Function: true}})
	<-ctx.Done()
	return nil
}

type nothingKnown struct{}

// Condition implements activator.Functions.
func (nothingKnown) Condition(types.NamespacedName) activator.Condition { return activator.Condition{} }
