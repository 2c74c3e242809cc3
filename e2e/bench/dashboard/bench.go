// Package dashboard measures the dashboard of a cluster with very many Functions, whose events come fast, while one browser shows it.
// kube-apiserver, etcd, nats-server, the bridge with its journal and the dashboard's process are real, and the browser is Chromium, which a
// test of e2e/dashboard drives. There are no nodes: Functions have Deployments without pods, and one sink takes all events.
package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// Run is the benchmark with its flags.
func Run(ctx context.Context, args []string) error {
	roles := map[string]rig.Role{"sink": sinkRole}
	return rig.Run(ctx, "dashboard", args, func(ctx context.Context, r *rig.Rig) error { return measure(ctx, r, args) }, roles)
}

const (
	releaseNamespace = "rouse-system"
	benchName        = "bench"
	host             = "127.0.0.1"
	// types is the number of types of events, each of which has a Subscription that gets it.
	types        = 50
	startTimeout = 2 * time.Minute
	ackWait      = 30 * time.Second
)

// settings are the command's flags.
type settings struct {
	count   int
	rate    int
	length  time.Duration
	browser string
}

func readSettings(arguments []string) (settings, error) {
	flags := flag.NewFlagSet("dashboard", flag.ContinueOnError)
	s := settings{}
	flags.IntVar(&s.count, "n", 2000, "Functions, and as many Subscriptions")
	flags.IntVar(&s.rate, "rate", 500, "events in a second")
	flags.DurationVar(&s.length, "for", time.Minute, "how long a browser looks")
	flags.StringVar(&s.browser, "browser", "e2e/dashboard/run.sh", "the program that runs the tests with a browser")
	if err := flags.Parse(arguments); err != nil {
		return s, err
	}
	if s.count < types || s.rate < 1 || s.length <= 0 {
		return s, fmt.Errorf("-n has to be %d at least, -rate and -for more than 0", types)
	}
	return s, nil
}

// looked is what the browser has found.
type looked struct {
	FirstView float64 `json:"firstViewMs"`
	P95       float64 `json:"p95Ms"`
	Heap      float64 `json:"heapMiB"`
	Shown     int     `json:"shown"` // events whose time was measured
}

func measure(ctx context.Context, r *rig.Rig, args []string) (err error) {
	s, err := readSettings(args)
	if err != nil {
		return err
	}
	ctrllog.SetLogger(logr.Discard())
	plane := envtest.New()
	environment, err := plane.Start()
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	cluster := &cluster{Environment: environment}
	publish, adminPort, err := startEvents(ctx, r)
	if err != nil {
		return err
	}
	fmt.Printf("making %d Functions, Subscriptions and Deployments\n", s.count)
	token, err := cluster.fill(ctx, s.count, adminPort)
	if err != nil {
		return err
	}
	served, url, err := startDashboard(ctx, r, cluster)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	load := startLoad(ctx, publish, s.rate)
	report := filepath.Join(r.Dir(), "looked.json")
	used := follow(ctx, served)
	began := time.Now()
	found, err := look(ctx, s, url, token, report)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, tail(r.Log("dashboard")))
	}
	took := time.Since(began)
	share, err := used(s.length)
	if err != nil {
		return err
	}
	rss, err := served.RSS()
	if err != nil {
		return err
	}
	fmt.Printf("published %.0f events/s, measured %d that were shown, for %s\n", float64(load.stop())/took.Seconds(), found.Shown, took.Round(time.Second))
	fmt.Printf("dashboard first_view_ms=%.0f p95_event_to_screen_ms=%.0f server_cpu_pct=%.0f server_rss_mib=%d browser_heap_mib=%.0f\n",
		found.FirstView, found.P95, 100*share, rss, found.Heap)
	return nil
}

// follow notes the CPU time of a process every second. What it returns says which share of a core the process has used lately.
func follow(ctx context.Context, p *rig.Process) func(lately time.Duration) (share float64, err error) {
	var mu sync.Mutex
	var times []time.Duration
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			used, err := p.CPU()
			if err != nil {
				return // it has ended, which its user notices
			}
			mu.Lock()
			times = append(times, used)
			mu.Unlock()
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return func(lately time.Duration) (float64, error) {
		mu.Lock()
		defer mu.Unlock()
		seconds := int(lately.Seconds())
		if len(times) <= seconds {
			return 0, fmt.Errorf("the CPU time was noted %d times, and not for %s", len(times), lately)
		}
		return (times[len(times)-1] - times[len(times)-1-seconds]).Seconds() / lately.Seconds(), nil
	}
}

// look runs a browser for a while, and reads what it has found.
func look(ctx context.Context, s settings, url, token, report string) (found looked, err error) {
	task, err := json.Marshal(map[string]any{"url": url, "token": token, "functions": s.count, "seconds": s.length.Seconds(), "report": report})
	if err != nil {
		return found, err
	}
	path := filepath.Join(filepath.Dir(report), "task.json")
	if err := os.WriteFile(path, task, 0o600); err != nil {
		return found, fmt.Errorf("write the browser's task: %w", err)
	}
	command := exec.CommandContext(ctx, s.browser, "-run", "TestBenchOfTheDashboard")
	command.Env = append(os.Environ(), "ROUSE_BENCH="+path)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return found, fmt.Errorf("look by a browser: %w", err)
	}
	text, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		return found, fmt.Errorf("read what the browser has found: %w", err)
	}
	return found, nil
}

// startEvents starts NATS, a bridge and a sink. It returns the URL of the bridge's ingress, and the port of its admin API.
func startEvents(ctx context.Context, r *rig.Rig) (publish string, admin int32, err error) {
	nats, err := r.StartNATS(rig.NATS{Name: benchName})
	if err != nil {
		return "", 0, err
	}
	sink, err := r.Start("sink")
	if err != nil {
		return "", 0, err
	}
	fixture := rig.Fixture{NATS: nats.Address(0), Endpoints: map[string][]string{}}
	for i := range types {
		route := rig.Route(namespaceOf(i), nameOf(i), benchName, typeOf(i), 20)
		fixture.Routes = append(fixture.Routes, route)
		fixture.Endpoints[route.Service.String()] = []string{strings.TrimPrefix(sink.Address(0), "http://")}
	}
	if err := fixture.PrepareAlone(ctx, broker.DefaultStreamOptions(), ackWait); err != nil {
		return "", 0, err
	}
	bridge, err := r.StartBridge(fixture, 0)
	if err != nil {
		return "", 0, err
	}
	port, err := portOf(bridge.Address(rig.Admin))
	return bridge.Address(rig.Public) + "/publish", port, err
}

func sinkRole(ctx context.Context, ready func(string), _ []string) error {
	return rig.Serve(ctx, 0, ready, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
}

// startDashboard builds the dashboard and runs it as a process of its own.
func startDashboard(ctx context.Context, r *rig.Rig, c *cluster) (*rig.Process, string, error) {
	binary := filepath.Join(r.Dir(), "dashboard")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/dashboard").CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("build the dashboard: %w: %s", err, out)
	}
	config, err := c.KubeConfig("dashboard", "system:masters")
	if err != nil {
		return nil, "", err
	}
	kubeconfig, token := filepath.Join(r.Dir(), "kubeconfig"), filepath.Join(r.Dir(), "token")
	if err := errors.Join(os.WriteFile(kubeconfig, config, 0o600), os.WriteFile(token, []byte(rig.AdminToken), 0o600)); err != nil {
		return nil, "", fmt.Errorf("write the dashboard's credentials: %w", err)
	}
	ports, err := rig.Ports(2)
	if err != nil {
		return nil, "", err
	}
	served, err := r.Run("dashboard", []string{"KUBECONFIG=" + kubeconfig, "GOMEMLIMIT=460MiB"}, binary,
		"--address="+host+":"+strconv.Itoa(ports[0]), "--metrics-address="+host+":"+strconv.Itoa(ports[1]),
		"--rouse-namespace="+releaseNamespace, "--bridge-token-file="+token)
	if err != nil {
		return nil, "", err
	}
	url := "http://localhost:" + strconv.Itoa(ports[0]) // where browsers keep a cookie without TLS
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return nil, "", err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			return served, url, response.Body.Close()
		}
	}
	return nil, "", fmt.Errorf("the dashboard does not start:\n%s", tail(r.Log("dashboard")))
}

// tail returns the end of a log.
func tail(path string) string {
	const most = 2000
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

func namespaceOf(i int) string { return "team-" + strconv.Itoa(i%namespaces) }

func nameOf(i int) string { return fmt.Sprintf("function-%04d", i) }

func typeOf(i int) string { return "thing" + strconv.Itoa(i%types) + ".happened" }

// sinkOf is the sink of a Subscription.
func sinkOf(i int) string {
	return rig.Route(namespaceOf(i), nameOf(i), benchName, typeOf(i), 1).Sink
}
