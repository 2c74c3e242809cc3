package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// benchBurst measures how long many sleeping Functions take that get an event each at the same moment, with KEDA's own limits of API
// calls and with higher ones, beside as many Deployments of the same pod that are scaled at the same moment without Rouse.
func benchBurst(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("burst", flag.ExitOnError)
	count := flags.Int("functions", 100, "how many Functions sleep")
	_ = flags.Parse(args)
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	cluster, namespace, end, err := framework.ConnectWithin(ctx, "bench")
	if err != nil {
		return err
	}
	defer end()
	b := &burstBench{cluster, namespace, *count}
	fmt.Printf("preparing %d Functions that sleep, as many Deployments of the same pod, and a ledger ...\n", b.count)
	if err := b.prepare(ctx); err != nil {
		return err
	}
	shipped, raised, err := b.wakes(ctx)
	if err != nil {
		return err
	}
	away, err := b.away(ctx)
	if err != nil {
		return err
	}
	bare, err := b.bare(ctx) // last, since its pods stay
	if err != nil {
		return err
	}
	fmt.Println(away)
	last := func(times []time.Duration) int64 { return framework.Percentile(times, 100).Milliseconds() }
	fmt.Printf("burst functions=%d p50_ms=%d p95_ms=%d last_ms=%d raised_last_ms=%d bare_last_ms=%d lost=%d\n", b.count,
		framework.Percentile(shipped, 50).Milliseconds(), framework.Percentile(shipped, 95).Milliseconds(),
		last(shipped), last(raised), last(bare), 2*b.count-len(shipped)-len(raised))
	return nil
}

type burstBench struct {
	cluster   *framework.Cluster
	namespace string
	count     int
}

const (
	sleeperPrefix = "sleeper-"
	kedaNamespace = "keda"
	kedaOperator  = "keda-operator"
)

func sleeperName(i int) string { return fmt.Sprintf("%s%d", sleeperPrefix, i) }

func (b *burstBench) prepare(ctx context.Context) error {
	if err := b.cluster.StartLedger(ctx, b.namespace); err != nil {
		return err
	}
	var manifests []string
	for i := range b.count {
		name := sleeperName(i)
		manifests = append(manifests,
			framework.Function{
				Name: name, Runtime: nodeRuntime, Source: framework.ReportingHandler(""), Asleep: true, Max: 1, CPU: "10m", // all fit on a node of two cores
			}.YAML(),
			framework.Subscription{Name: name, Namespace: b.namespace, Type: burstType(i), Sink: name}.YAML())
	}
	if err := b.cluster.ApplyYAML(ctx, b.namespace, strings.Join(manifests, "---\n")); err != nil {
		return err
	}
	for i := range b.count {
		if err := b.cluster.AwaitSubscribed(ctx, b.namespace, sleeperName(i)); err != nil {
			return err
		}
	}
	original := &appsv1.Deployment{}
	if err := b.cluster.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: sleeperName(0)}, original); err != nil {
		return err
	}
	for i := range b.count {
		if err := b.twin(i).create(ctx, original); err != nil {
			return err
		}
	}
	return nil
}

func burstType(i int) string { return fmt.Sprintf("bench.burst%d.v1", i) }

func (b *burstBench) twin(i int) bareTwin {
	return bareTwin{cluster: b.cluster, namespace: b.namespace, name: fmt.Sprintf("%s-%d", bareName, i)}
}

// wakes measures the burst with KEDA's defaults and with the limits of the local cluster, and leaves KEDA as it was.
func (b *burstBench) wakes(ctx context.Context) (shipped, raised []time.Duration, err error) {
	limits, err := b.setKEDALimits(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	shipped, err = b.wake(ctx, "shipped")
	if _, restored := b.setKEDALimits(context.WithoutCancel(ctx), limits); err == nil {
		err = restored
	}
	if err != nil {
		return nil, nil, err
	}
	raised, err = b.wake(ctx, "raised")
	return shipped, raised, err
}

// wake publishes an event for each Function at the same moment, and returns how long each took from there until its handler saw it.
func (b *burstBench) wake(ctx context.Context, round string) ([]time.Duration, error) {
	if err := b.awaitAsleep(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	keys, err := b.publish(ctx, round, 0, b.count)
	if err != nil {
		return nil, err
	}
	entries, missing := b.cluster.AwaitLedger(ctx, b.namespace, keys, 5*time.Minute)
	var times []time.Duration
	for _, key := range keys {
		if entry, ok := entries[key]; ok {
			times = append(times, time.UnixMicro(int64(entry.At*1000)).Sub(began))
		}
	}
	if missing != nil {
		fmt.Println(missing)
	}
	fmt.Printf("%-13s %d events: p50 %5d ms, the last %5d ms\n", round, len(times),
		framework.Percentile(times, 50).Milliseconds(), framework.Percentile(times, 100).Milliseconds())
	return times, nil
}

// publish publishes an event for each of some Functions at the same moment, and returns their keys.
func (b *burstBench) publish(ctx context.Context, round string, from, to int) ([]string, error) {
	keys := make([]string, to-from)
	var publishing errgroup.Group
	for i := from; i < to; i++ {
		key := fmt.Sprintf("%s-%s-%d", b.namespace, round, i)
		keys[i-from] = key
		publishing.Go(func() error {
			return b.cluster.Publish(ctx, framework.Event{ID: key, Type: burstType(i), Data: map[string]string{"key": key}})
		})
	}
	return keys, publishing.Wait()
}

// away stops KEDA's operator in the middle of a burst, and returns how the Functions woke whose events came then. Two pods of
// a Function are one too many.
func (b *burstBench) away(ctx context.Context) (line string, err error) {
	if err := b.awaitAsleep(ctx); err != nil {
		return "", err
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	pods := podLives{of: map[string]map[string]*corev1.Pod{}}
	if err := b.cluster.RecordPods(watching, b.namespace, nil, pods.add); err != nil {
		return "", err
	}
	keys, err := b.publish(ctx, "away", 0, b.count/2)
	if err != nil {
		return "", err
	}
	var began time.Time
	var entries map[string]framework.Entry
	err = b.cluster.Without(ctx, kedaNamespace, kedaOperator, func() error {
		began = time.Now()
		more, err := b.publish(ctx, "away", b.count/2, b.count)
		if err != nil {
			return err
		}
		keys = append(keys, more...)
		entries, err = b.cluster.AwaitLedger(ctx, b.namespace, keys, 5*time.Minute)
		return err
	})
	if err == nil {
		err = b.awaitAsleep(ctx) // KEDA is back
	}
	if err != nil {
		return "", err
	}
	var times []time.Duration
	lost := 0
	for i, key := range keys {
		entry, ok := entries[key]
		switch {
		case !ok:
			lost++
		case i >= b.count/2:
			times = append(times, time.UnixMicro(int64(entry.At*1000)).Sub(began))
		}
	}
	return fmt.Sprintf("keda-away: woken=%d p95_ms=%d lost=%d double=%d",
		len(times), framework.Percentile(times, 95).Milliseconds(), lost, pods.doubles()), nil
}

// podLives are the pods of each Function as they were seen last.
type podLives struct {
	mu sync.Mutex
	of map[string]map[string]*corev1.Pod
}

func (p *podLives) add(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := pod.Labels[framework.FunctionLabel]
	if p.of[name] == nil {
		p.of[name] = map[string]*corev1.Pod{}
	}
	p.of[name][pod.Name] = pod
}

// doubles counts the sleepers that had more than one pod, and prints when those were there.
func (p *podLives) doubles() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for name, pods := range p.of {
		if !strings.HasPrefix(name, sleeperPrefix) || len(pods) < 2 {
			continue
		}
		n++
		for _, pod := range pods {
			fmt.Printf("%s had pod %s from %s, phase %s %s, deleted %s\n", name, pod.Name, pod.CreationTimestamp.Format(time.TimeOnly),
				pod.Status.Phase, pod.Status.Reason, pod.DeletionTimestamp)
		}
	}
	return n
}

// bare scales all twins at the same moment, and returns how long each took until its port took a connection.
func (b *burstBench) bare(ctx context.Context) ([]time.Duration, error) {
	if err := b.awaitAsleep(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	addresses := make(chan string, b.count)
	err := b.cluster.RecordAddresses(ctx, b.namespace, client.MatchingLabels{bareLabel: bareName}, func(pod *corev1.Pod, _ time.Time) {
		addresses <- net.JoinHostPort(pod.Status.PodIP, podPort)
	})
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var times []time.Duration
	var starting errgroup.Group
	began := time.Now()
	for i := range b.count {
		starting.Go(func() error { return b.twin(i).scale(ctx, 1) })
		starting.Go(func() error {
			select {
			case <-ctx.Done():
				return fmt.Errorf("a bare pod has no address: %w", ctx.Err())
			case address := <-addresses:
				err := awaitAccept(ctx, address)
				mu.Lock()
				defer mu.Unlock()
				times = append(times, time.Since(began))
				return err
			}
		})
	}
	if err := starting.Wait(); err != nil {
		return nil, err
	}
	fmt.Printf("%-13s %d pods:   p50 %5d ms, the last %5d ms\n", bareName, len(times),
		framework.Percentile(times, 50).Milliseconds(), framework.Percentile(times, 100).Milliseconds())
	return times, nil
}

// awaitAsleep waits until no pod is there but the ledger's.
func (b *burstBench) awaitAsleep(ctx context.Context) error {
	return framework.Await(ctx, 5*time.Minute, "all Functions to sleep", func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		if err := b.cluster.List(ctx, pods, client.InNamespace(b.namespace)); err != nil {
			return false, err
		}
		awake := 0
		for _, pod := range pods.Items {
			if pod.Labels[framework.FunctionLabel] != framework.LedgerName {
				awake++
			}
		}
		if awake > 0 {
			return false, fmt.Errorf("%d pods are there", awake)
		}
		return true, nil
	})
}

// setKEDALimits sets the flags that limit the API calls of KEDA's operator, none for its defaults, and returns those it had.
func (b *burstBench) setKEDALimits(ctx context.Context, limits []string) (before []string, err error) {
	operator := &appsv1.Deployment{}
	key := types.NamespacedName{Namespace: kedaNamespace, Name: kedaOperator}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := b.cluster.Get(ctx, key, operator); err != nil {
			return err
		}
		before = nil
		var args []string
		container := &operator.Spec.Template.Spec.Containers[0]
		for _, arg := range container.Args {
			if strings.HasPrefix(arg, "--kube-api-") {
				before = append(before, arg)
			} else {
				args = append(args, arg)
			}
		}
		container.Args = slices.Concat(args, limits)
		return b.cluster.Update(ctx, operator)
	})
	if err != nil {
		return nil, fmt.Errorf("set the limits of KEDA: %w", err)
	}
	generation := operator.Generation
	err = framework.Await(ctx, 2*time.Minute, "KEDA with its new limits", func(ctx context.Context) (bool, error) {
		if err := b.cluster.Get(ctx, key, operator); err != nil {
			return false, err
		}
		status := operator.Status
		return status.ObservedGeneration >= generation && status.UpdatedReplicas == 1 && status.ReadyReplicas == 1 && status.Replicas == 1, nil
	})
	if err != nil {
		return before, err
	}
	return before, b.awaitStreams(ctx)
}

// awaitStreams waits until KEDA, which has started again, holds a stream for each Function: until then it learns by polling what waits.
func (b *burstBench) awaitStreams(ctx context.Context) error {
	return framework.Await(ctx, 10*time.Minute, "KEDA's streams to the scaler", func(ctx context.Context) (bool, error) {
		scalers, err := b.cluster.PodsOf(ctx, "scaler")
		if err != nil {
			return false, err
		}
		open := 0
		for i := range scalers {
			n, err := b.streams(ctx, &scalers[i])
			if err != nil {
				return false, err
			}
			open += n
		}
		if open < b.count {
			return false, fmt.Errorf("%d of %d are open", open, b.count)
		}
		return true, nil
	})
}

// streams asks the metrics of a scaler.
func (b *burstBench) streams(ctx context.Context, scaler *corev1.Pod) (int, error) {
	const port = "9090"
	text, err := b.cluster.Kube.CoreV1().Pods(scaler.Namespace).ProxyGet("http", scaler.Name, port, "metrics", nil).DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the metrics of %s: %w", scaler.Name, err)
	}
	open := 0
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, `rouse_scaler_streams_open{call="StreamIsActive"} `); ok {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				return 0, fmt.Errorf("read the metrics of %s: %w", scaler.Name, err)
			}
			open += n
		}
	}
	return open, nil
}
