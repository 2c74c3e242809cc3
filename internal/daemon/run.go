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

// Main is the whole of a command's main function: flags from args, log, signals, run. It returns the exit
// code: 0 when run ended well, 1 when it failed, 2 when the command line is wrong.
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

// RunOn runs work on top of what it stands on (caches, a metrics listener): that starts first, outlives the
// drain of work, and is ended when work has returned. When a part of it ends early, work is drained.
// The first error is returned.
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
	// maxProfileTime bounds how long one profile may be taken, whatever its request asks for.
	maxProfileTime        = time.Minute
	maxProfileConnections = 8
)

// ProfilingOptions says where the profiles of the process are served.
type ProfilingOptions struct {
	Address string // of the loopback interface; empty: nowhere
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

// Set by the linker: -X github.com/rouse-run/rouse/internal/daemon.version=v1.2.3, and the others likewise.
var (
	version string
	commit  string // of Git
	date    string // RFC 3339; the time of the commit, since the same source has to give the same binary
)

const unknown = "unknown"

// Build says what a binary was made of.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Time     string `json:"time"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// String is one line of it.
func (b Build) String() string {
	return fmt.Sprintf("%s (commit %s of %s, %s, %s)", b.Version, b.Commit, b.Time, b.Go, b.Platform)
}

// ThisBuild is that of this binary.
func ThisBuild() Build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(Build{Version: version, Commit: commit, Time: date}, info)
}

// Version returns the version of this binary: the linked version, else the module's, else "devel".
func Version() string { return ThisBuild().Version }

// buildOf completes what was linked by what Go recorded: the module's version with "go install", and the commit when it
// built in a checkout.
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

// RegisterBuild adds rouse_build_info, which is always 1. A registry that has it keeps it.
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

// NewRegistry is a registry with the metrics of the process, of its build and of Go's runtime.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := RegisterBuild(registry); err != nil {
		panic(err) // as MustRegister does: a second metric of that name
	}
	return registry
}
