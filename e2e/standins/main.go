// Command standins publishes events for Functions that sleep in a namespace with stand-ins, kills stand-ins, own pods and processes of
// Rouse meanwhile, and fails when an event is lost.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

func main() { framework.Main("standins", run) }

func run(ctx context.Context) error {
	rounds := flag.Int("rounds", 24, "how often all Functions are woken")
	flag.Parse()
	cluster, namespace, end, err := framework.ConnectWithin(ctx, "standins")
	if err != nil {
		return err
	}
	defer end()
	c := &chaos{cluster: cluster, namespace: namespace, token: rand.Text()[:6]}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	for round := range *rounds {
		if err := c.round(ctx, round); err != nil {
			cluster.Dump(context.WithoutCancel(ctx), os.Stderr, namespace)
			return fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	return c.count(ctx, *rounds)
}

const (
	functions = 4
	standIns  = 2
	events    = 15 // of each Function in a round
)

type chaos struct {
	cluster   *framework.Cluster
	namespace string
	token     string // of this run: ids of an earlier one are deduplicated for some time
	served    *framework.ServingStandIns

	mu    sync.Mutex
	keys  []string
	begin func(*corev1.Pod) // what befalls a stand-in that begins to serve
}

func name(i int) string      { return fmt.Sprintf("sleeper-%d", i) }
func eventType(i int) string { return fmt.Sprintf("chaos.standins%d.v1", i) }

func (c *chaos) prepare(ctx context.Context) error {
	fmt.Printf("preparing %d Functions that sleep, a ledger and %d stand-ins ...\n", functions, standIns)
	if err := c.cluster.StartLedger(ctx, c.namespace); err != nil {
		return err
	}
	var manifests []string
	for i := range functions {
		manifests = append(manifests, framework.Function{
			Name: name(i), Runtime: "nodejs22", Source: framework.ReportingHandler("await new Promise(r => setTimeout(r, 100))"), Asleep: true, Max: 2,
			Annotations: framework.Fast(), Spec: framework.WithinStandIns(),
		}.YAML(), framework.Subscription{Name: name(i), Namespace: c.namespace, Type: eventType(i), Sink: name(i)}.YAML())
	}
	if err := c.cluster.ApplyYAML(ctx, c.namespace, strings.Join(manifests, "---\n")); err != nil {
		return err
	}
	for i := range functions {
		if err := c.cluster.AwaitSubscribed(ctx, c.namespace, name(i)); err != nil {
			return err
		}
	}
	if err := c.cluster.AskForStandIns(ctx, c.namespace, fmt.Sprintf("nodejs22=%d", standIns)); err != nil {
		return err
	}
	var err error
	c.served, err = c.cluster.RecordServingStandIns(ctx, c.namespace, func(pod *corev1.Pod) {
		c.mu.Lock()
		begin := c.begin
		c.mu.Unlock()
		if begin != nil {
			begin(pod)
		}
	})
	return err
}

// disruption is what happens in a round. A stand-in that begins to serve suffers begins; run comes right after the publishes.
type disruption struct {
	name   string
	begins func(context.Context, *corev1.Pod)
	run    func(context.Context) error
}

func (c *chaos) disruptions() []disruption {
	component := func(of string) func(context.Context) error {
		return func(ctx context.Context) error {
			pods, err := c.cluster.PodsOf(ctx, of)
			if err != nil {
				return err
			}
			return c.cluster.KillPod(ctx, &pods[0])
		}
	}
	return []disruption{
		{name: "nothing"},
		{name: "stand-ins are killed", begins: func(ctx context.Context, pod *corev1.Pod) { _ = c.cluster.KillPod(ctx, pod) }},
		{name: "stand-ins are removed", begins: func(ctx context.Context, pod *corev1.Pod) {
			_ = c.cluster.Delete(ctx, pod, client.GracePeriodSeconds(0))
		}},
		{name: "stand-ins are evicted", begins: func(ctx context.Context, pod *corev1.Pod) {
			time.Sleep(100 * time.Millisecond) // in the middle of its calls
			_ = c.cluster.Delete(ctx, pod)
		}},
		{name: "own pods are killed", run: c.killOwn},
		{name: "a bridge is killed", run: component("eventbridge")},
		{name: "the controller is killed", run: component("controller")},
		{name: "a scaler is killed", run: component("scaler")},
	}
}

// killOwn kills the first own pod of each Function as soon as it runs.
func (c *chaos) killOwn(ctx context.Context) error {
	var killing errgroup.Group
	for i := range functions {
		killing.Go(func() error {
			return framework.Await(ctx, time.Minute, "a pod of "+name(i), func(ctx context.Context) (bool, error) {
				pods := &corev1.PodList{}
				err := c.cluster.List(ctx, pods, client.InNamespace(c.namespace), client.MatchingLabels{framework.FunctionLabel: name(i)})
				for _, pod := range pods.Items {
					if pod.Labels[framework.StandInLabel] == "" && pod.Status.Phase == corev1.PodRunning {
						return c.cluster.KillPod(ctx, &pod) == nil, nil
					}
				}
				return false, err
			})
		})
	}
	return killing.Wait()
}

// round wakes all Functions, most of them from zero, under one disruption.
func (c *chaos) round(ctx context.Context, n int) error {
	asleep, ready := c.awaitCalm(ctx)
	all := c.disruptions()
	what := all[n%len(all)]
	c.mu.Lock()
	c.begin = func(pod *corev1.Pod) {
		if what.begins != nil {
			what.begins(ctx, pod)
		}
	}
	c.mu.Unlock()
	before := len(c.served.Names())
	keys, err := c.publish(ctx, n, what)
	if err != nil {
		return err
	}
	_, err = c.cluster.AwaitLedger(ctx, c.namespace, keys, 4*time.Minute)
	fmt.Printf("%2d  %-25s asleep=%d ready_stand_ins=%d events=%d hand_overs=%d\n", n+1, what.name, asleep, ready, len(keys), len(c.served.Names())-before)
	return err
}

// awaitCalm waits for a while until all sleep and all stand-ins wait, and returns how many do.
func (c *chaos) awaitCalm(ctx context.Context) (asleep, ready int) {
	_ = framework.Await(ctx, time.Minute, "calm", func(ctx context.Context) (bool, error) { // without it the round is another one
		pods := &corev1.PodList{}
		if err := c.cluster.List(ctx, pods, client.InNamespace(c.namespace)); err != nil {
			return false, err
		}
		asleep, ready = functions, 0
		for i := range pods.Items {
			pod := &pods.Items[i]
			switch {
			case pod.Labels[framework.StandInLabel] == "waits" && framework.Ready(pod) && pod.DeletionTimestamp.IsZero():
				ready++
			case strings.HasPrefix(pod.Labels[framework.FunctionLabel], "sleeper-"):
				asleep--
			}
		}
		return asleep == functions && ready == standIns, nil
	})
	return asleep, ready
}

func (c *chaos) publish(ctx context.Context, round int, beside disruption) ([]string, error) {
	var keys []string
	var publishing errgroup.Group
	for i := range functions {
		for n := range events {
			key := fmt.Sprintf("%s-%d-%d-%d", c.token, round, i, n)
			keys = append(keys, key)
			publishing.Go(func() error {
				return c.cluster.Publish(ctx, framework.Event{ID: key, Type: eventType(i), Data: map[string]string{"key": key}})
			})
		}
	}
	if beside.run != nil {
		publishing.Go(func() error { return beside.run(ctx) })
	}
	c.keys = append(c.keys, keys...)
	return keys, publishing.Wait()
}

// count prints where all events are.
func (c *chaos) count(ctx context.Context, rounds int) error {
	entries, err := c.cluster.Ledger(ctx, c.namespace)
	if err != nil {
		return err
	}
	acked, duplicates, dead, pending := 0, 0, 0, 0
	for _, key := range c.keys {
		if entry, ok := entries[key]; ok {
			acked++
			duplicates += entry.Count - 1
		}
	}
	err = framework.Await(ctx, 2*time.Minute, "all events to be settled", func(ctx context.Context) (bool, error) {
		dead, pending = 0, 0
		for i := range functions {
			balance, err := c.cluster.Balance(ctx, c.namespace, name(i))
			if err != nil {
				return false, err
			}
			dead, pending = dead+int(balance.DeadLetters), pending+int(balance.Pending)
		}
		return pending == 0, nil
	})
	lost := len(c.keys) - acked - dead - pending
	fmt.Printf("standins rounds=%d published=%d acked=%d deadlettered=%d pending=%d lost=%d duplicates=%d hand_overs=%d\n",
		rounds, len(c.keys), acked, dead, pending, lost, duplicates, len(c.served.Names()))
	if lost > 0 {
		return errors.Join(err, fmt.Errorf("%d events are lost", lost))
	}
	return err
}
