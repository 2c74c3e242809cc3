package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// language is a runtime whose wakes are measured.
type language struct {
	name, runtime, source string
	// standIn is true where a stand-in waits before each wake.
	standIn bool
}

var languages = []language{
	{"node", nodeRuntime, framework.ReportingHandler(""), false},
	{"python", "python314", framework.ReportingHandlerInPython, false},
	{"go", "go126", framework.ReportingHandlerInGo, false},
	{"standin", nodeRuntime, framework.ReportingHandler(""), true},
	{"standin_python", "python314", framework.ReportingHandlerInPython, true},
}

// benchWake measures how long a sleeping Function takes from a publish to the first byte at its handler, beside a bare scale of the same
// pod from 0 to 1 until its port accepts a connection. Both take turns in one run, so that both see the same machine.
func benchWake(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("wake", flag.ExitOnError)
	rounds := flags.Int("rounds", 20, "how many wakes of each runtime, and as many bare scale-ups")
	names := flags.String("languages", "node,python,go,standin,standin_python", "languages to measure, and languages with a stand-in")
	cpu := flags.Bool("cpu", false, "print the CPU time that the machine's processes take until a pod has its address")
	_ = flags.Parse(args)
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	var figures, beside strings.Builder
	for name := range strings.SplitSeq(*names, ",") {
		i := slices.IndexFunc(languages, func(l language) bool { return l.name == name })
		if i < 0 {
			return fmt.Errorf("-languages %q: %q is unknown, use node, python, go, standin or standin_python", *names, name)
		}
		wakes, bares, err := wakesOf(ctx, cluster, languages[i], *rounds, *cpu)
		if err != nil {
			return err
		}
		p50, p95, bare := percentile(wakes, 50), percentile(wakes, 95), median(bares)
		_, _ = fmt.Fprintf(&figures, " %[1]s_p50_ms=%[2]d %[1]s_p95_ms=%[3]d", name, p50.Milliseconds(), p95.Milliseconds())
		_, _ = fmt.Fprintf(&beside, " %[1]s_bare_accept_p50_ms=%[2]d %[1]s_bare_ready_p50_ms=%[3]d %[1]s_ratio=%.2[4]f",
			name, bare.answered.Milliseconds(), bare.ready.Milliseconds(), float64(p50)/float64(bare.answered))
	}
	fmt.Println("wake" + figures.String() + beside.String())
	return nil
}

func percentile(wakes []stages, of float64) time.Duration {
	answered := make([]time.Duration, len(wakes))
	for i, each := range wakes {
		answered[i] = each.answered
	}
	return framework.Percentile(answered, of)
}

// wakesOf measures one language, and prints where its time goes.
func wakesOf(ctx context.Context, cluster *framework.Cluster, l language, rounds int, cpu bool) (wakes, bares []stages, err error) {
	namespace, err := cluster.CreateNamespace(ctx, "bench")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = cluster.DeleteNamespace(context.WithoutCancel(ctx), namespace) }()
	b := &wakeBench{bareTwin: bareTwin{cluster: cluster, namespace: namespace, name: bareName}, language: l}
	if cpu {
		b.cpu, b.cpuOfWakes = &cpuRecord{sum: cpuTimes{}}, &cpuRecord{sum: cpuTimes{}}
	}
	fmt.Println("preparing a Function of " + l.runtime + ", the same pod without Rouse, and a ledger ...")
	if err := b.prepare(ctx); err != nil {
		return nil, nil, err
	}
	for round := range rounds {
		wake, err := b.wake(ctx, fmt.Sprintf("wake-%d", round))
		if err != nil {
			return nil, nil, err
		}
		bare, err := b.run(ctx, nil)
		if err != nil {
			return nil, nil, err
		}
		wakes, bares = append(wakes, wake), append(bares, bare)
		fmt.Printf("%2d/%d  %s: wake %5d ms   bare accepts %5d ms, is Ready %5d ms\n",
			round+1, rounds, l.name, wake.answered.Milliseconds(), bare.answered.Milliseconds(), bare.ready.Milliseconds())
	}
	printStages(l.runtime, wakes, bares)
	if cpu {
		printCPU(b.cpuOfWakes, b.cpu)
	}
	return wakes, bares, nil
}

const (
	wokenName = "woken"
	wakeType  = "bench.wake.v1"
)

type wakeBench struct {
	bareTwin
	language   language
	replicas   *framework.Replicas
	cpuOfWakes *cpuRecord // nil without -cpu
}

// prepare makes the Function and a Deployment with the very same pod, both at zero.
func (b *wakeBench) prepare(ctx context.Context) error {
	if err := b.cluster.StartLedger(ctx, b.namespace); err != nil {
		return err
	}
	woken := framework.Function{
		Name: wokenName, Runtime: b.language.runtime, Source: b.language.source, Asleep: true, Max: 1,
		Annotations: map[string]string{"rouse.run/polling-interval": "1", "rouse.run/cooldown-period": "1"},
	}
	if b.language.standIn {
		woken.Spec = framework.WithinStandIns()
		if err := b.cluster.AskForStandIns(ctx, b.namespace, b.language.runtime+"=1"); err != nil {
			return err
		}
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
	if b.replicas, err = b.cluster.RecordReplicas(ctx, b.namespace, wokenName); err != nil {
		return err
	}
	return b.create(ctx, original)
}

// wake publishes one event at zero. The stages end when the handler saw it.
func (b *wakeBench) wake(ctx context.Context, key string) (stages, error) {
	labels := client.MatchingLabels{framework.FunctionLabel: wokenName}
	if err := b.awaitNoPods(ctx, labels); err != nil {
		return stages{}, err
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, addressed, err := watchStart(watching, b.cluster, b.namespace, labels)
	if err != nil {
		return stages{}, err
	}
	served, err := b.awaitStandIn(watching)
	if err != nil {
		return stages{}, err
	}
	addCPU := b.cpuOfWakes.watch(watching, addressed)
	published := time.Now()
	err = b.cluster.Publish(ctx, framework.Event{ID: key, Type: wakeType, Data: map[string]string{"key": key}})
	if err != nil {
		return stages{}, err
	}
	entries, err := b.cluster.AwaitLedger(ctx, b.namespace, []string{key}, time.Minute)
	if err != nil {
		return stages{}, err
	}
	select {
	case <-addressed:
	case <-ctx.Done():
		return stages{}, ctx.Err()
	}
	addCPU()
	if b.language.standIn && len(served.Names()) == 0 {
		return stages{}, errors.New("no stand-in served in the wake of " + key)
	}
	s := seen().since(published)
	s.answered = time.UnixMicro(int64(entries[key].At * 1000)).Sub(published)
	if s.wanted, err = wantedSince(b.replicas, published); err != nil {
		return stages{}, err
	}
	return s, b.awaitNoPods(ctx, labels)
}

// awaitStandIn waits until a stand-in waits, where one does, and records whether it serves.
func (b *wakeBench) awaitStandIn(ctx context.Context) (*framework.ServingStandIns, error) {
	if b.language.standIn {
		if _, err := b.cluster.AwaitStandIns(ctx, b.namespace, 1); err != nil {
			return nil, err
		}
	}
	return b.cluster.RecordServingStandIns(ctx, b.namespace, func(*corev1.Pod) {})
}
