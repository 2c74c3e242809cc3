package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// benchWake measures how long a sleeping Function takes from a publish to the first byte at its handler,
// beside a bare scale of the same pod from 0 to 1 until it is Ready. Both take turns in one run, so that both see the
// same machine.
func benchWake(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("wake", flag.ExitOnError)
	rounds := flags.Int("rounds", 20, "how many wakes and how many bare scale-ups")
	runtime := flags.String("runtime", nodeRuntime, "runtime of the Function: "+nodeRuntime+" or "+goRuntime)
	_ = flags.Parse(args)
	return runWake(ctx, *runtime, *rounds)
}

func runWake(ctx context.Context, runtime string, rounds int) error {
	source, known := sources[runtime]
	if !known {
		return fmt.Errorf("-runtime %q: use %s or %s", runtime, nodeRuntime, goRuntime)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	namespace, err := cluster.CreateNamespace(ctx, "bench")
	if err != nil {
		return err
	}
	defer func() { _ = cluster.DeleteNamespace(context.WithoutCancel(ctx), namespace) }()

	b := &wakeBench{bareTwin: bareTwin{cluster, namespace}, runtime: runtime, source: source}
	fmt.Println("preparing a Function of " + runtime + ", the same pod without Rouse, and a ledger ...")
	if err := b.prepare(ctx); err != nil {
		return err
	}
	var wakes, bares []time.Duration
	for round := range rounds {
		wake, err := b.wake(ctx, fmt.Sprintf("wake-%d", round))
		if err != nil {
			return err
		}
		bare, err := b.bare(ctx)
		if err != nil {
			return err
		}
		wakes, bares = append(wakes, wake), append(bares, bare)
		fmt.Printf("%2d/%d  wake %5d ms   bare %5d ms\n", round+1, rounds, wake.Milliseconds(), bare.Milliseconds())
	}
	p50, p95, bare := framework.Percentile(wakes, 50), framework.Percentile(wakes, 95), framework.Percentile(bares, 50)
	fmt.Printf("wake p50_ms=%d p95_ms=%d bare_ready_p50_ms=%d ratio=%.2f\n",
		p50.Milliseconds(), p95.Milliseconds(), bare.Milliseconds(), float64(p50)/float64(bare))
	return nil
}

const (
	wokenName = "woken"
	wakeType  = "bench.wake.v1"

	nodeRuntime = "nodejs22"
	goRuntime   = "go126"
)

// sources are the handlers, by the runtimes that they are for.
var sources = map[string]string{nodeRuntime: framework.ReportingHandler(""), goRuntime: framework.ReportingHandlerInGo}

type wakeBench struct {
	bareTwin
	runtime string
	source  string
}

// prepare makes the Function and a Deployment with the very same pod, both at zero.
func (b *wakeBench) prepare(ctx context.Context) error {
	if err := b.cluster.StartLedger(ctx, b.namespace); err != nil {
		return err
	}
	woken := framework.Function{
		Name: wokenName, Runtime: b.runtime, Source: b.source, Asleep: true, Max: 1,
		Annotations: map[string]string{"rouse.run/polling-interval": "1", "rouse.run/cooldown-period": "1"},
	}
	subscription := framework.Subscription{Name: wokenName, Namespace: b.namespace, Type: wakeType, Sink: wokenName}
	if err := b.cluster.ApplyYAML(ctx, b.namespace, woken.YAML()+"---\n"+subscription.YAML()); err != nil {
		return err
	}
	if err := b.cluster.AwaitSubscribed(ctx, b.namespace, wokenName); err != nil {
		return err
	}
	original := &appsv1.Deployment{}
	err := framework.Await(ctx, time.Minute, "the Function's Deployment", func(ctx context.Context) (bool, error) {
		err := b.cluster.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: wokenName}, original)
		return err == nil, err
	})
	if err != nil {
		return err
	}
	return b.create(ctx, original)
}

// wake publishes one event at zero and returns the time until the handler saw it.
func (b *wakeBench) wake(ctx context.Context, key string) (time.Duration, error) {
	labels := client.MatchingLabels{framework.FunctionLabel: wokenName}
	if err := b.awaitNoPods(ctx, labels); err != nil {
		return 0, err
	}
	published := time.Now()
	err := b.cluster.Publish(ctx, framework.Event{ID: key, Type: wakeType, Data: map[string]string{"key": key}})
	if err != nil {
		return 0, err
	}
	entries, err := b.cluster.AwaitLedger(ctx, b.namespace, []string{key}, time.Minute)
	if err != nil {
		return 0, err
	}
	at := time.UnixMicro(int64(entries[key].At * 1000))
	return at.Sub(published), b.awaitNoPods(ctx, labels)
}

// bare scales the twin to 1, as kubectl scale does, and returns the time until its pod is Ready.
func (b *wakeBench) bare(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan time.Time, 1)
	if err := b.cluster.RecordReady(ctx, b.namespace, client.MatchingLabels{"app": bareName}, ready); err != nil {
		return 0, err
	}
	started := time.Now()
	if err := b.scale(ctx, 1); err != nil {
		return 0, err
	}
	var took time.Duration
	select {
	case at := <-ready:
		took = at.Sub(started)
	case <-time.After(time.Minute):
		return 0, fmt.Errorf("the bare pod of %s was not Ready within a minute", b.namespace)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := b.scale(ctx, 0); err != nil {
		return 0, err
	}
	return took, b.awaitNoPods(ctx, client.MatchingLabels{"app": bareName})
}
