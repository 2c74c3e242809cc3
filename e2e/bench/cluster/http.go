package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/bench/gateway"
	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/rig"
)

// benchHTTP measures how long a request to a sleeping Function takes until the first byte of its answer, beside a bare scale of the
// same pod from 0 to 1 until its port accepts; what a warm Function carries through its Service with waking on, beside off; and, without
// the cluster, what comes through the gateway and an APIRule, as "bench gateway" does.
func benchHTTP(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("http", flag.ExitOnError)
	rounds := flags.Int("rounds", 20, "how many wakes and how many bare scale-ups")
	warm := flags.Int("warm-rounds", 10, "how many measurements of the warm Function with waking on, and as many with it off")
	_ = flags.Parse(args)
	return rig.Run(ctx, "http", args, func(ctx context.Context, r *rig.Rig) error {
		return runHTTP(ctx, r, *rounds, *warm)
	}, gateway.Roles())
}

func runHTTP(ctx context.Context, r *rig.Rig, rounds, warmRounds int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	cluster, namespace, end, err := framework.ConnectWithin(ctx, "bench")
	if err != nil {
		return err
	}
	defer end()

	b := &httpBench{bareTwin: bareTwin{cluster: cluster, namespace: namespace, name: bareName}}
	fmt.Println("preparing a Function that sleeps, the same pod without Rouse, and a Function that is warm ...")
	if err := b.prepare(ctx); err != nil {
		return err
	}
	measured, err := b.wakes(ctx, rounds)
	if err != nil {
		return err
	}
	on, off, err := b.warm(ctx, warmRounds)
	if err != nil {
		return err
	}
	beside, err := gateway.Measure(ctx, r)
	if err != nil {
		return err
	}
	measured.explain()
	p50, p95, bare := framework.Percentile(measured.wake, 50), framework.Percentile(measured.wake, 95), framework.Percentile(measured.accept, 50)
	fmt.Printf("http wake_p50_ms=%d wake_p95_ms=%d bare_accept_p50_ms=%d wake_ratio=%.2f warm_ratio=%.2f gateway_ratio=%.2f %s errors=%d\n",
		p50.Milliseconds(), p95.Milliseconds(), bare.Milliseconds(), float64(p50)/float64(bare), on/off, beside.ReverseProxy(), beside.Envoy(), b.errors)
	return nil
}

const (
	sleeping = "sleeping"
	warm     = "warm"

	hello = "module.exports.main = function () { return 'hello' }"
)

type httpBench struct {
	bareTwin
	urls   map[string]string
	errors int
}

// prepare makes all Functions, and a Deployment with the very pod of the one that sleeps.
func (b *httpBench) prepare(ctx context.Context) error {
	fast := map[string]string{"rouse.run/polling-interval": "1", "rouse.run/cooldown-period": "1"}
	functions := []framework.Function{
		{Name: sleeping, Runtime: nodeRuntime, Source: hello, Asleep: true, Annotations: fast},
		{Name: warm, Runtime: nodeRuntime, Source: hello, Asleep: true, Max: 1},
	}
	b.urls = map[string]string{}
	for _, function := range functions {
		if err := b.cluster.ApplyYAML(ctx, b.namespace, function.YAML()); err != nil {
			return err
		}
	}
	for _, function := range functions {
		if err := b.cluster.AwaitCondition(ctx, b.namespace, framework.FunctionGVK, function.Name, "Running", "True", time.Minute); err != nil {
			return err
		}
		service := &corev1.Service{}
		if err := b.cluster.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: function.Name}, service); err != nil {
			return err
		}
		b.urls[function.Name] = "http://" + service.Spec.ClusterIP
	}
	original := &appsv1.Deployment{}
	if err := b.cluster.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: sleeping}, original); err != nil {
		return err
	}
	return b.create(ctx, original)
}

// wake asks the Function at zero and returns when it began, and the time until the first byte of its answer.
func (b *httpBench) wake(ctx context.Context) (began time.Time, took time.Duration, err error) {
	labels := client.MatchingLabels{framework.FunctionLabel: sleeping}
	if err := b.awaitNoPods(ctx, labels); err != nil {
		return began, 0, err
	}
	began = time.Now()
	first, err := b.ask(ctx, b.urls[sleeping])
	return began, first.Sub(began), err
}

// ask makes a request over a new connection, and returns when the first byte of its answer came.
func (b *httpBench) ask(ctx context.Context, url string) (time.Time, error) {
	var first time.Time
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { first = time.Now() }})
	request, err := http.NewRequestWithContext(traced, http.MethodGet, url, http.NoBody)
	if err != nil {
		return first, fmt.Errorf("make a request: %w", err)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}).Do(request)
	if err != nil {
		return first, fmt.Errorf("ask %s: %w", url, err)
	}
	if answer.StatusCode != http.StatusOK {
		b.errors++
	}
	return first, answer.Body.Close()
}

// wakes are the times of all rounds.
type wakes struct {
	// wake is until the first byte of the answer to a request at zero, and wanted until the Deployment was to have a replica.
	wake, wanted []time.Duration
	// accept is until the port of the same pod, scaled by hand, takes connections, and answer until its first answer begins.
	accept, answer []time.Duration
}

// wakes measures so many of each kind in turns.
func (b *httpBench) wakes(ctx context.Context, rounds int) (*wakes, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	replicas, err := b.cluster.RecordReplicas(ctx, b.namespace, sleeping)
	if err != nil {
		return nil, err
	}
	w := &wakes{}
	for round := range rounds {
		began, wake, err := b.wake(ctx)
		if err != nil {
			return nil, err
		}
		wanted, err := wantedSince(replicas, began)
		if err != nil {
			return nil, err
		}
		var answer time.Duration
		bare, err := b.run(ctx, func(began time.Time, address string) error {
			first, err := b.ask(ctx, "http://"+address)
			answer = first.Sub(began)
			return err
		})
		if err != nil {
			return nil, err
		}
		accept := bare.answered
		w.wake, w.wanted = append(w.wake, wake), append(w.wanted, wanted)
		w.accept, w.answer = append(w.accept, accept), append(w.answer, answer)
		fmt.Printf("%2d/%d  wake %5d ms, a replica is wanted after %4d ms   bare accepts %5d ms and answers %5d ms\n",
			round+1, rounds, wake.Milliseconds(), wanted.Milliseconds(), accept.Milliseconds(), answer.Milliseconds())
	}
	return w, nil
}

// explain says where the time of a wake goes.
func (w *wakes) explain() {
	wanted, answer := framework.Percentile(w.wanted, 50), framework.Percentile(w.answer, 50)
	fmt.Printf("of the wake, %d ms pass until KEDA wants a replica; scaled by hand the same pod's first answer takes %d ms: together %.2f of the wake\n",
		wanted.Milliseconds(), answer.Milliseconds(), float64(wanted+answer)/float64(framework.Percentile(w.wake, 50)))
}
