package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"
	_ "golang.org/x/crypto/x509roots/fallback" // the image is FROM scratch and has no CA file

	"github.com/rouse-run/rouse/internal/fips"
	"github.com/rouse-run/rouse/internal/flags"
)

// Main implements a command's main function: it parses the flags in args, sets up log and signals, and calls run. It
// returns the exit code: 0 when run succeeded, 1 when it failed, 2 when the command line is invalid.
func Main(name string, args []string, options flags.Options, run func(context.Context, logr.Logger) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return runMain(ctx, name, args, os.Stderr, options, run)
}

func runMain(
	ctx context.Context, name string, args []string, stderr io.Writer,
	options flags.Options, run func(context.Context, logr.Logger) error,
) int {
	logs, profiling := DefaultLogOptions(), ProfilingOptions{}
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.SortFlags = false
	flags.Bind(fs, options, &logs, &profiling)
	asked := fs.String("fips-mode", string(fips.Off), "FIPS 140-3 mode without which the process does not start, of off, on and only")
	showVersion := fs.Bool("version", false, "print the version and exit")

	if err := fs.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return 0
		}
		return usage(stderr, name, err)
	}
	if *showVersion {
		_, _ = fmt.Fprintln(stderr, name, ThisBuild())
		return 0
	}
	if fs.NArg() > 0 {
		return usage(stderr, name, fmt.Errorf("unknown argument %q: only flags are accepted", fs.Arg(0)))
	}
	state := fips.Running()
	if err := errors.Join(flags.Validate(options, &logs, &profiling), checkFIPS(*asked, state)); err != nil {
		return usage(stderr, name, err)
	}

	live, err := New(stderr, name, logs.Config())
	if err != nil {
		return usage(stderr, name, err)
	}
	log := live.Logger()
	build := ThisBuild()
	log.Info("starting", "component", name, "version", build.Version, "commit", build.Commit, "built", build.Time, "go", build.Go,
		"fips", state.Mode(), "fipsModule", state.Version)
	err = profiling.run(ctx, log, func(ctx context.Context) error { return run(ctx, log) })
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Error(err, "stopped by an error", "component", name)
		return 1
	}
	log.Info("stopped", "component", name)
	return 0
}

func checkFIPS(asked string, state fips.State) error {
	mode, err := fips.Parse(asked)
	if err == nil {
		err = mode.Check(state)
	}
	if err != nil {
		err = fmt.Errorf("--fips-mode %w", err)
	}
	return err
}

func usage(stderr io.Writer, name string, err error) int {
	_, _ = fmt.Fprintf(stderr, "%s: %v\nRun %s --help for all flags.\n", name, err, name)
	return 2
}

// RunOn runs work on top of its dependencies (caches, a metrics listener), which start first and are stopped after work
// has returned. When a dependency ends early, work is drained. RunOn returns the first error.
func RunOn(ctx context.Context, work func(context.Context) error, ground ...func(context.Context) error) error {
	workCtx, endWork := context.WithCancel(ctx)
	defer endWork()
	groundCtx, endGround := context.WithCancel(context.WithoutCancel(ctx))
	defer endGround()

	var once sync.Once
	var first error
	note := func(err error) {
		if err != nil {
			once.Do(func() { first = err })
		}
	}
	var parts sync.WaitGroup
	for _, part := range ground {
		parts.Go(func() {
			note(part(groundCtx))
			endWork()
		})
	}
	note(work(workCtx))
	endGround()
	parts.Wait()
	return first
}

const (
	// maxProfileTime bounds the duration of a profile regardless of the request.
	maxProfileTime        = time.Minute
	maxProfileConnections = 8
)

// ProfilingOptions are the flags for serving profiles of the process.
type ProfilingOptions struct {
	Address string // on the loopback interface; empty: not served
}

// Flags declares --pprof-address, which others must not be able to reach.
func (o *ProfilingOptions) Flags(fs *flags.Set) {
	address, err := netip.ParseAddrPort(o.Address)
	fs.String(&o.Address, "pprof-address",
		"loopback address that serves Go's profiles below /debug/pprof/, like 127.0.0.1:6060; none when empty")
	fs.Require(o.Address == "" || err == nil && address.Addr().IsLoopback(),
		"--pprof-address %q: use an IP address of the loopback interface, like 127.0.0.1:6060, "+
			"since profiles show the inside of the process, and kubectl port-forward to reach it", o.Address)
}

// run serves profiles while work runs and drains.
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

// profiles serves CPU profiles, execution traces, and the profiles of runtime/pprof. A profile that is in progress when
// ctx ends is cut short, so that it does not delay the end of the process.
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

// isLoopback reports whether the Host header of a request names the loopback interface. A web page whose name resolves
// to 127.0.0.1 (DNS rebinding), in the browser of a user that forwards the port, has another Host.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// Set by the linker: -X github.com/rouse-run/rouse/internal/daemon.version=v1.2.3, and the others likewise.
var (
	version string
	commit  string // of Git
	date    string // RFC 3339; the time of the commit, since the same source has to give the same binary
)

const unknown = "unknown"

// Build describes the origin of a binary.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Time     string `json:"time"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// String returns the build on one line.
func (b Build) String() string {
	return fmt.Sprintf("%s (commit %s of %s, %s, %s)", b.Version, b.Commit, b.Time, b.Go, b.Platform)
}

// ThisBuild returns the build of this binary.
func ThisBuild() Build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(Build{Version: version, Commit: commit, Time: date}, info)
}

// Version returns the version of this binary: the linked version, else the module's, else "devel".
func Version() string { return ThisBuild().Version }

// buildOf completes the linked values with the values that Go recorded: the module's version with "go install", and the
// commit in a checkout.
func buildOf(linked Build, info *debug.BuildInfo) Build {
	recorded := map[string]string{}
	installed := ""
	if info != nil {
		installed = info.Main.Version
		for _, setting := range info.Settings {
			recorded[setting.Key] = setting.Value
		}
	}
	if installed == "(devel)" {
		installed = ""
	}
	revision := recorded["vcs.revision"]
	if revision != "" && recorded["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return Build{
		Version:  cmp.Or(linked.Version, installed, "devel"),
		Commit:   cmp.Or(linked.Commit, revision, unknown),
		Time:     cmp.Or(linked.Time, recorded["vcs.time"], unknown),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// RegisterBuild registers the metric rouse_build_info, which is always 1, unless it is registered already.
func RegisterBuild(registerer prometheus.Registerer) error {
	b := ThisBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rouse_build_info", Help: "What the process was made of, as labels of the value 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "goversion": b.Go},
	})
	info.Set(1)
	err := registerer.Register(info)
	if _, has := errors.AsType[prometheus.AlreadyRegisteredError](err); has {
		return nil
	}
	return err
}

// NewRegistry returns a registry with the metrics of the process, its build and Go's runtime.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := RegisterBuild(registry); err != nil {
		panic(err) // like MustRegister, for a duplicate metric
	}
	return registry
}
