package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// benchProfiles measures how a Function answers at the resources of each profile: at a fixed rate, and to callers that each wait for
// their answer, beside the least server of its language in a pod with the same resources.
func benchProfiles(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("profiles", flag.ExitOnError)
	rate := flags.Int("rate", 50, "requests a second")
	lasts := flags.Duration("for", 20*time.Second, "how long each load lasts")
	callers := flags.Int("callers", 100, "callers that each wait for their answer")
	language := flags.String("language", "", "node or python; empty: both")
	_ = flags.Parse(args)
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	cluster, namespace, end, err := framework.ConnectWithin(ctx, "bench")
	if err != nil {
		return err
	}
	defer end()
	b := &profileBench{cluster: cluster, namespace: namespace, rate: *rate, callers: *callers, lasts: *lasts, language: *language}
	return b.run(ctx)
}

type profileBench struct {
	cluster       *framework.Cluster
	namespace     string
	rate, callers int
	lasts         time.Duration
	language      string // empty: all
	errors        counts // of the Function that is measured
	bareErrors    counts // of the least server
}

// counts are errors by their kind: requests that were not sent because all callers waited, and those that were not answered in time or at
// all.
type counts struct{ unsent, unanswered atomic.Int64 }

// profile is one of docs/functions.md.
type profile struct{ name, requestCPU, requestMemory, limitCPU, limitMemory string }

func profiles() []profile {
	return []profile{
		{"XS", "50m", "64Mi", "150m", "256Mi"},
		{"S", "100m", "128Mi", "200m", "256Mi"},
		{"M", "200m", "256Mi", "400m", "512Mi"},
		{"L", "400m", "512Mi", "800m", "1024Mi"},
		{"XL", "800m", "1024Mi", "1600m", "2048Mi"},
	}
}

// profiled is a language with a handler, and the command of the least server that answers the same.
type profiled struct {
	label, runtime, handler string
	bare                    []string
}

func profiledLanguages() []profiled {
	return []profiled{
		{
			"node", nodeRuntime, "module.exports.main = () => 'hello'\n",
			[]string{"node", "-e", "require('http').createServer((request, response) => response.end('hello')).listen(8080)"},
		},
		{
			"python", "python312", "def main(event, context):\n    return 'hello'\n",
			[]string{"python3", "-c", `
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Hello(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1  # or head and body are two packets, of which the second waits 40 ms
    def do_GET(self):
        self.send_response(200)
        self.send_header('content-length', '5')
        self.end_headers()
        self.wfile.write(b'hello')
    def log_message(self, *args):
        pass
ThreadingHTTPServer.request_queue_size = 128  # or connections of callers that come at once are lost
ThreadingHTTPServer(('', 8080), Hello).serve_forever()
`},
		},
	}
}

// load is what one pod made of both kinds of load.
type load struct {
	paced   []time.Duration
	crowded []time.Duration
	rate    float64 // answers a second while crowded
}

func (b *profileBench) run(ctx context.Context) error {
	fmt.Printf("%-8s %-4s %35s %35s\n", "", "", fmt.Sprintf("%d requests/s: p50 p95 p99, bare p95", b.rate), fmt.Sprintf("%d callers: p50 p99 ms, /s, bare /s", b.callers))
	var figures []string
	for _, language := range profiledLanguages() {
		if b.language != "" && b.language != language.label {
			continue
		}
		for _, of := range profiles() {
			ours, bare, err := b.both(ctx, language, of)
			if err != nil {
				return fmt.Errorf("%s with profile %s: %w", language.runtime, of.name, err)
			}
			p95, bareP95 := millis(ours.paced, 95), millis(bare.paced, 95)
			fmt.Printf("%-8s %-4s %8.1f %8.1f %8.1f %8.1f %8.0f %8.0f %8.0f %8.0f\n", language.label, of.name,
				millis(ours.paced, 50), p95, millis(ours.paced, 99), bareP95,
				millis(ours.crowded, 50), millis(ours.crowded, 99), ours.rate, bare.rate)
			prefix := language.label + "_" + strings.ToLower(of.name)
			figures = append(figures, fmt.Sprintf("%s_p95_ms=%.1f %s_bare_p95_ms=%.1f", prefix, p95, prefix, bareP95))
		}
	}
	fmt.Printf("profiles rate=%d %s unsent=%d unanswered=%d bare_unsent=%d bare_unanswered=%d\n", b.rate, strings.Join(figures, " "),
		b.errors.unsent.Load(), b.errors.unanswered.Load(), b.bareErrors.unsent.Load(), b.bareErrors.unanswered.Load())
	return nil
}

func millis(times []time.Duration, p float64) float64 {
	return float64(framework.Percentile(times, p).Microseconds()) / 1000
}

// both measures the Function and then the least server, one at a time.
func (b *profileBench) both(ctx context.Context, language profiled, of profile) (ours, bare load, err error) {
	function := framework.Function{
		Name: "profiled", Runtime: language.runtime, Source: language.handler,
		Spec: map[string]any{"resourceConfiguration": map[string]any{"function": map[string]any{"profile": of.name}}},
	}
	if err := b.cluster.ApplyYAML(ctx, b.namespace, function.YAML()); err != nil {
		return ours, bare, err
	}
	applied, err := b.cluster.Function(ctx, b.namespace, function.Name)
	if err != nil {
		return ours, bare, err
	}
	if ours, err = b.measure(ctx, applied, client.MatchingLabels{framework.FunctionLabel: function.Name}, &b.errors); err != nil {
		return ours, bare, err
	}
	image, err := b.cluster.RuntimeImage(ctx, language.runtime)
	if err != nil {
		return ours, bare, err
	}
	pod := b.barePod(image, language.bare, of)
	if err := b.cluster.Create(ctx, pod); err != nil {
		return ours, bare, fmt.Errorf("create the bare pod: %w", err)
	}
	bare, err = b.measure(ctx, pod, client.MatchingLabels{bareLabel: bareName}, &b.bareErrors)
	return ours, bare, err
}

func (b *profileBench) barePod(image string, command []string, of profile) *corev1.Pod {
	resources := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: bareName, Labels: map[string]string{bareLabel: bareName}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{
				Name: "server", Image: image, Command: command,
				ReadinessProbe: &corev1.Probe{
					PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.Parse(podPort)}},
				},
				SecurityContext: &corev1.SecurityContext{
					RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), AllowPrivilegeEscalation: new(false),
					Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Resources: corev1.ResourceRequirements{
					Requests: resources(of.requestCPU, of.requestMemory), Limits: resources(of.limitCPU, of.limitMemory),
				},
			}},
		},
	}
}

// measure puts the only pod of an object under both kinds of load, and deletes the object.
func (b *profileBench) measure(ctx context.Context, of client.Object, pods client.MatchingLabels, errs *counts) (measured load, err error) {
	url, err := b.awaitPod(ctx, pods)
	if err != nil {
		return measured, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: b.callers, DisableCompression: true}
	defer transport.CloseIdleConnections()
	for range 3 { // what is loaded and compiled with the first requests is not the profile's
		if err := requestOnce(ctx, transport, url); err != nil {
			return measured, err
		}
	}
	measured.paced = b.paced(ctx, transport, url, errs)
	began := time.Now()
	measured.crowded = b.crowded(ctx, transport, url, errs)
	measured.rate = float64(len(measured.crowded)) / time.Since(began).Seconds()
	if err := b.cluster.Delete(ctx, of); err != nil {
		return measured, fmt.Errorf("delete %s: %w", of.GetName(), err)
	}
	return measured, framework.Await(ctx, 2*time.Minute, "the pod to be gone", func(ctx context.Context) (bool, error) {
		found, err := b.podsOf(ctx, pods)
		return err == nil && len(found) == 0, err
	})
}

func (b *profileBench) podsOf(ctx context.Context, labels client.MatchingLabels) ([]corev1.Pod, error) {
	found := &corev1.PodList{}
	err := b.cluster.List(ctx, found, client.InNamespace(b.namespace), labels)
	return found.Items, err
}

// awaitPod returns the address of the only pod with these labels, once it is ready.
func (b *profileBench) awaitPod(ctx context.Context, labels client.MatchingLabels) (url string, err error) {
	return url, framework.Await(ctx, 3*time.Minute, "a pod to be ready", func(ctx context.Context) (bool, error) {
		found, err := b.podsOf(ctx, labels)
		if err != nil || len(found) != 1 {
			return false, err
		}
		url = "http://" + found[0].Status.PodIP + ":" + podPort
		return slices.ContainsFunc(found[0].Status.Conditions, func(condition corev1.PodCondition) bool {
			return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
		}), nil
	})
}

// paced sends requests at the rate, whether or not those before have been answered. Requests above as many as the callers are errors.
func (b *profileBench) paced(ctx context.Context, transport http.RoundTripper, url string, errs *counts) []time.Duration {
	times, places := timings{}, make(chan struct{}, b.callers)
	ticker := time.NewTicker(time.Second / time.Duration(b.rate))
	defer ticker.Stop()
	var sent sync.WaitGroup
	for end := time.Now().Add(b.lasts); time.Now().Before(end) && ctx.Err() == nil; {
		<-ticker.C
		select {
		case places <- struct{}{}:
			sent.Go(func() {
				timeOne(ctx, transport, url, &times, errs)
				<-places
			})
		default:
			errs.unsent.Add(1)
		}
	}
	sent.Wait()
	return times.all
}

// crowded has all callers ask again as soon as they have their answer.
func (b *profileBench) crowded(ctx context.Context, transport http.RoundTripper, url string, errs *counts) []time.Duration {
	times, end := timings{}, time.Now().Add(b.lasts)
	var callers sync.WaitGroup
	for range b.callers {
		callers.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				timeOne(ctx, transport, url, &times, errs)
			}
		})
	}
	callers.Wait()
	return times.all
}

// answerTimeout is after which an answer counts as an error.
const answerTimeout = 10 * time.Second

func timeOne(ctx context.Context, transport http.RoundTripper, url string, into *timings, errs *counts) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	began := time.Now()
	if err := requestOnce(ctx, transport, url); err != nil {
		if !errors.Is(err, context.Canceled) {
			errs.unanswered.Add(1)
		}
		return
	}
	into.add(time.Since(began))
}

// timings is safe for concurrent use.
type timings struct {
	mu  sync.Mutex
	all []time.Duration
}

func (t *timings) add(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, took)
}
