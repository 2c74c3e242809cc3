package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
)

const (
	// maxProfileTime is how long one profile may be taken, whatever its request asks for.
	maxProfileTime        = time.Minute
	maxProfileConnections = 8
)

// ProfilingOptions says where the profiles of the process are served.
type ProfilingOptions struct {
	Address string // of the loopback interface; empty: nowhere
}

// BindFlags adds --pprof-address.
func (o *ProfilingOptions) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Address, "pprof-address", o.Address,
		"loopback address that serves Go's profiles below /debug/pprof/, like 127.0.0.1:6060; none when empty")
}

// Validate refuses an address that others could reach.
func (o *ProfilingOptions) Validate() error {
	if o.Address == "" {
		return nil
	}
	address, err := netip.ParseAddrPort(o.Address)
	if err != nil || !address.Addr().IsLoopback() {
		return fmt.Errorf("--pprof-address %q: use an IP address of the loopback interface, like 127.0.0.1:6060, "+
			"since profiles show the inside of the process, and kubectl port-forward to reach it", o.Address)
	}
	return nil
}

// run runs work with the profiles beside it, also while work drains.
func (o *ProfilingOptions) run(ctx context.Context, log logr.Logger, work func(context.Context) error) error {
	if o.Address == "" {
		return work(ctx)
	}
	return RunOn(ctx, work, func(ctx context.Context) error {
		return Serve(ctx, Server{
			Name: "profiles", Addr: o.Address, Handler: profiles(ctx), MaxConnections: maxProfileConnections,
		}, log)
	})
}

// profiles serves CPU profiles, execution traces, and what runtime/pprof knows by name. A profile that is being taken
// when ctx ends is answered with what it has, so that it does not hold up the end of the process.
func profiles(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			http.Error(w, "profiles are for clients that ask for localhost: use kubectl port-forward", http.StatusForbidden)
			return
		}
		taken, cancel := context.WithTimeout(r.Context(), maxProfileTime)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		mux.ServeHTTP(w, r.WithContext(taken))
	})
}

// isLoopback reports whether a request names the loopback interface as its host. A web page whose own name resolves to
// 127.0.0.1 (DNS rebinding), in the browser of the user that forwards the port, names another.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
