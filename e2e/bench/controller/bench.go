// Package controller measures the controller that an installation has, with very many Functions and Subscriptions: how fast they
// reach their status, how long a new process takes until it has looked at each of them, its memory, and what it asks of the API
// server when nothing happens. kube-apiserver, etcd and nats-server are real; there are no nodes, and the tool says in place of
// Kubernetes and KEDA that all is well.
package controller

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/e2e/rig"
)

// Run is the benchmark with its flags.
func Run(ctx context.Context, args []string) error {
	return rig.Run(ctx, "controller", args, func(ctx context.Context, r *rig.Rig) error { return measure(ctx, r, args) }, nil)
}

// settings are the command's flags.
type settings struct {
	count     int
	idle      time.Duration
	timeout   time.Duration
	chart     string
	manifests string
	binary    string
	profile   string
}

func readSettings(arguments []string) (settings, error) {
	flags := flag.NewFlagSet("controller", flag.ContinueOnError)
	s := settings{}
	flags.IntVar(&s.count, "n", 10_000, "Functions, and as many Subscriptions")
	flags.DurationVar(&s.idle, "idle", 5*time.Minute, "how long calls are counted while nothing happens")
	flags.DurationVar(&s.timeout, "timeout", time.Hour, "how long it may take until all have their status")
	flags.StringVar(&s.chart, "chart", "charts/rouse", "the chart whose flags, rights and memory limit the controller gets")
	flags.StringVar(&s.manifests, "manifests", "samples/orders/pricing.yaml", "the Function and the Subscription that are made so often")
	flags.StringVar(&s.binary, "binary", "", "the controller; empty: it is built")
	flags.StringVar(&s.profile, "profile", "", "where heap profiles of the controller go; empty: none are taken")
	if err := flags.Parse(arguments); err != nil {
		return s, err
	}
	if s.count < 1 || s.idle <= 0 || s.timeout <= 0 {
		return s, errors.New("-n, -idle and -timeout have to be more than 0")
	}
	return s, nil
}

func measure(ctx context.Context, r *rig.Rig, args []string) (err error) {
	s, err := readSettings(args)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, r, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	var f figures
	for _, stage := range []func(context.Context, *figures) error{b.apply, b.resync, b.rest} {
		if err := stage(ctx, &f); err != nil {
			return fmt.Errorf("%w\n%s", err, b.lastWords())
		}
	}
	fmt.Printf("controller n=%d apply_per_s=%.1f resync_s=%.1f rss_mib=%d idle_api_calls_per_min=%.0f\n",
		s.count, f.applied, f.resynced, f.peak, f.idle)
	return nil
}

// figures are what the last line says.
type figures struct {
	applied  float64 // pairs of a Function and its Subscription per second
	resynced float64 // seconds
	peak     int     // MiB, the most that a process had
	idle     float64 // calls per minute
}

// settleTime is how long nothing has to happen before a state counts as settled.
const settleTime = 10 * time.Second

// bench is what runs.
type bench struct {
	settings settings
	rig      *rig.Rig
	cluster  *cluster
	shipped  shipped
	nats     string
	binary   string
	objects  []pair
	running  *controller // nil while none runs
	peak     int         // MiB
}

func newBench(ctx context.Context, r *rig.Rig, s settings) (b *bench, err error) {
	b = &bench{settings: s, rig: r, binary: s.binary}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.shipped, err = readChart(ctx, s.chart); err != nil {
		return b, err
	}
	if b.objects, err = makePairs(s.manifests, s.count); err != nil {
		return b, err
	}
	if b.binary == "" {
		b.binary = filepath.Join(r.Dir(), "controller")
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", b.binary, "./cmd/controller")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return b, fmt.Errorf("build the controller: %w: %s", err, out)
		}
	}
	server, err := r.StartNATS(rig.NATS{Name: "nats"})
	if err != nil {
		return b, err
	}
	b.nats = server.Where
	if b.cluster, err = startCluster(ctx, r.Dir(), b.shipped); err != nil {
		return b, err
	}
	fmt.Printf("the controller of the chart: %d flags, memory limit %s, GOMEMLIMIT %s\n", len(b.shipped.args), b.shipped.limit, b.shipped.memory())
	return b, nil
}

func (b *bench) close() error {
	var errs []error
	if b.running != nil {
		errs = append(errs, b.stop())
	}
	if b.cluster != nil {
		errs = append(errs, b.cluster.close())
	}
	return errors.Join(errs...)
}

// stop ends the controller as Kubernetes would, which releases its lease.
func (b *bench) stop() error {
	ended := b.running
	b.running = nil
	peak, err := ended.process.PeakRSS()
	b.peak = max(b.peak, peak)
	return errors.Join(err, ended.process.Stop())
}

// apply measures from the first object to the last status.
func (b *bench) apply(ctx context.Context, f *figures) error {
	ctx, cancel := context.WithTimeout(ctx, b.settings.timeout)
	defer cancel()
	if err := b.start(ctx); err != nil {
		return err
	}
	settled, err := watchSettled(ctx, b.cluster, b.settings.count)
	if err != nil {
		return err
	}
	defer settled.stop()
	before, err := b.cluster.calls()
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := b.cluster.create(ctx, b.objects); err != nil {
		return err
	}
	fmt.Printf("%d Functions and Subscriptions are created after %.1f s\n", b.settings.count, time.Since(begun).Seconds())
	if err := settled.await(ctx); err != nil {
		return err
	}
	took := time.Since(begun)
	f.applied = float64(b.settings.count) / took.Seconds()
	after, err := b.cluster.calls()
	if err != nil {
		return err
	}
	calls := after.since(before)
	fmt.Printf("all have their status after %.1f s; calls for each pair: %s\n", took.Seconds(), calls.per(b.settings.count))
	return b.quiet(ctx)
}

// resync measures from the start of a new process until it has reconciled each object and nothing is queued.
func (b *bench) resync(ctx context.Context, f *figures) error {
	ctx, cancel := context.WithTimeout(ctx, b.settings.timeout)
	defer cancel()
	rss, err := b.running.process.RSS()
	if err != nil {
		return err
	}
	if err := b.stop(); err != nil {
		return err
	}
	fmt.Printf("the first process had %d MiB, and %d MiB at most\n", rss, b.peak)
	before, err := b.cluster.calls()
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := b.start(ctx); err != nil {
		return err
	}
	done, err := b.running.awaitResync(ctx, b.settings.count)
	if err != nil {
		return err
	}
	f.resynced = done.Sub(begun).Seconds()
	after, err := b.cluster.calls()
	if err != nil {
		return err
	}
	calls := after.since(before)
	fmt.Printf("a new process has looked at all after %.1f s; its calls, %d of them writes: %s\n", f.resynced, calls.writes(), calls)
	return b.quiet(ctx)
}

// rest counts calls while nothing happens.
func (b *bench) rest(ctx context.Context, f *figures) error {
	if err := b.running.takeProfile(ctx, b.settings.profile); err != nil {
		return err
	}
	before, err := b.cluster.calls()
	if err != nil {
		return err
	}
	fmt.Printf("counting calls for %s\n", b.settings.idle)
	if err := sleep(ctx, b.settings.idle); err != nil {
		return err
	}
	after, err := b.cluster.calls()
	if err != nil {
		return err
	}
	calls := after.since(before)
	f.idle = float64(calls.total()) / b.settings.idle.Minutes()
	rss, err := b.running.process.RSS()
	if err != nil {
		return err
	}
	fmt.Printf("calls in %s: %s\n", b.settings.idle, calls)
	if err := b.stop(); err != nil {
		return err
	}
	f.peak = b.peak
	fmt.Printf("the second process had %d MiB; the most of both were %d MiB\n", rss, b.peak)
	return nil
}

// quiet returns when the controller has nothing to do for a while.
func (b *bench) quiet(ctx context.Context) error {
	for since := time.Now(); time.Since(since) < settleTime; {
		busy, err := b.running.busy(ctx)
		if err != nil {
			return err
		}
		if busy {
			since = time.Now()
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// lastWords are the end of the controller's log.
func (b *bench) lastWords() string {
	text, err := os.ReadFile(b.rig.Log(controllerName))
	if err != nil {
		return err.Error()
	}
	const most = 20
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(len(lines)-most, 0):], "\n")
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

const (
	maxNamespaces = 200
	creators      = 8 // at a time
)

// pair is a Function and the Subscription that leads to it.
type pair struct {
	function     *serverlessv1alpha2.Function
	subscription *eventingv1alpha2.Subscription
}

// makePairs makes so many of a file's Function and Subscription, spread over namespaces, with events of their own.
func makePairs(path string, count int) ([]pair, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<16)
	first := pair{function: &serverlessv1alpha2.Function{}, subscription: &eventingv1alpha2.Subscription{}}
	if err := errors.Join(decoder.Decode(first.function), decoder.Decode(first.subscription)); err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	pairs := make([]pair, count)
	for i := range pairs {
		namespace, name := namespaceAt(i), fmt.Sprintf("price-%d", i)
		function, subscription := first.function.DeepCopy(), first.subscription.DeepCopy()
		function.Namespace, function.Name = namespace, name
		subscription.Namespace, subscription.Name = namespace, name
		subscription.Spec.Types = []string{fmt.Sprintf("order.received.v%d", i)}
		subscription.Spec.Sink = fmt.Sprintf("http://%s.%s.svc.cluster.local", name, namespace)
		pairs[i] = pair{function: function, subscription: subscription}
	}
	return pairs, nil
}

func namespaceAt(i int) string { return fmt.Sprintf("shop-%d", i%maxNamespaces) }

// create makes the objects, first the namespaces.
func (c *cluster) create(ctx context.Context, pairs []pair) error {
	for i := range min(len(pairs), maxNamespaces) {
		if err := c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceAt(i)}}); err != nil {
			return fmt.Errorf("create a namespace: %w", err)
		}
	}
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for _, each := range pairs {
		group.Go(func() error {
			for _, object := range []client.Object{each.function, each.subscription} {
				if err := c.Client.Create(creating, object); err != nil {
					return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}
