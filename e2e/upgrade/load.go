package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// load publishes events and sends requests until it is finished.
type load struct {
	s    *stage
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu         sync.Mutex
	taken      []event       // events whose publishers received 204
	refused    int           // failed attempts, which were repeated
	slowest    time.Duration // maximum duration of a publish since the last step, with all attempts
	visits     int           // requests to the Function that sleeps between them
	held       int           // requests of these that waited for it to wake
	failures   []string
	rolledBack bool
	err        error
}

// event was stored by one of the releases.
type event struct {
	chain, key string
	rollback   bool // after the rollback began
}

// startLoad starts events of all chains and requests.
func (s *stage) startLoad(ctx context.Context) (*load, error) {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{s: s, stop: cancel}
	s.load = l
	for chain, pace := range paces() {
		l.wg.Go(func() { l.repeat(ctx, pace.every, func(n int) error { return l.burst(ctx, chain, n, pace.burst) }) })
	}
	l.wg.Go(func() { l.repeat(ctx, 30*time.Second, func(n int) error { return l.visit(ctx, n) }) })
	for called, to := range steady() {
		if err := s.callers[called].Steady(ctx, to, called, 50); err != nil {
			return l, err
		}
	}
	return l, nil
}

// pace is the interval and the number of simultaneous events.
type pace struct {
	every time.Duration
	burst int
}

func paces() map[string]pace {
	return map[string]pace{
		relay:   {every: 200 * time.Millisecond, burst: 1},
		napper:  {every: 20 * time.Second, burst: 5},
		flaky:   {every: time.Second, burst: 1},
		refuser: {every: 2 * time.Second, burst: 1},
	}
}

// steady returns the continuous requests.
func steady() map[string]framework.Call {
	return map[string]framework.Call{
		asked:   {URL: "http://" + asked + "/"},
		exposed: {URL: framework.Entrance, Headers: map[string]string{"host": exposed + "." + framework.OwnDomain}},
	}
}

func (l *load) repeat(ctx context.Context, every time.Duration, do func(n int) error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := 0; ; n++ {
		if err := do(n); err != nil {
			l.mu.Lock()
			if l.err == nil && ctx.Err() == nil {
				l.err = err
			}
			l.mu.Unlock()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (l *load) burst(ctx context.Context, chain string, n, size int) error {
	for i := range size {
		if _, err := l.publish(context.WithoutCancel(ctx), chain, fmt.Sprintf("%s-%d-%d", chain, n, i)); err != nil {
			return err
		}
	}
	return nil
}

// publish sends an event until it is stored, as a reliable publisher does.
func (l *load) publish(ctx context.Context, chain, key string) (string, error) {
	began := time.Now()
	refused, err := l.s.cluster.PublishCounting(ctx, framework.Event{ID: l.s.namespace + key, Type: kind(chain), Data: map[string]string{"key": key}})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slowest = max(l.slowest, time.Since(began))
	if l.refused += refused; err == nil {
		l.taken = append(l.taken, event{chain: chain, key: key, rollback: l.rolledBack})
	}
	return key, err
}

// visit sends a request to the Function that sleeps in between.
func (l *load) visit(ctx context.Context, n int) error {
	body := fmt.Sprintf("%s-%d", visited, n)
	answers, err := l.s.callers[visited].Do(context.WithoutCancel(ctx), framework.Call{URL: "http://" + visited + "/", Method: http.MethodPost, Body: body})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.visits++
	if answers[0].Waited > 0 {
		l.held++
	}
	if answers[0].Status != http.StatusOK || answers[0].Text != body {
		l.failures = append(l.failures, fmt.Sprintf("%s %s: %+v", time.Now().Format(time.TimeOnly), body, answers[0]))
	}
	return nil
}

// rollBack marks events stored from now on as part of the rollback.
func (l *load) rollBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rolledBack = true
}

// during changes the cluster and then lets the load run for a while. The events published at the end have to be
// handled: it does not suffice that events are kept.
func (l *load) during(ctx context.Context, what string, change func() error) error {
	began := time.Now()
	if err := change(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	changed := time.Since(began)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(look):
	}
	key, err := l.publish(ctx, relay, fmt.Sprintf("%s-marker-%d", relay, time.Now().UnixNano()))
	if err != nil {
		return err
	}
	if _, err := l.s.cluster.AwaitLedger(ctx, l.s.namespace, []string{key}, time.Minute); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := l.s.checkAsleep(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Printf("%-32s %3.0f s, then taken=%d refused=%d slowest_publish=%.1fs visits=%d woke=%d failed=%d\n",
		what, changed.Seconds(), len(l.taken), l.refused, l.slowest.Seconds(), l.visits, l.held, len(l.failures))
	l.slowest = 0
	return l.err
}

const runtime = "nodejs22"

// The chains of events; each is a Function and its Subscription.
const (
	relay   = "relay"   // always awake, emits an event for each event it receives
	worker  = "worker"  // receives those, and is awake as long as they arrive
	napper  = "napper"  // sleeps between infrequent events
	flaky   = "flaky"   // fails for some events, which are retried
	refuser = "refuser" // rejects all events, which become dead letters
	held    = "held"    // asleep and paused: its events stay pending
	dormant = "dormant" // receives no events, and sleeps
)

// The Functions that serve HTTP.
const (
	asked   = "asked"   // may sleep, and gets continuous requests
	visited = "visited" // gets infrequent requests, which wake it
	exposed = "exposed" // gets continuous requests through the gateways, by its APIRule
)

const echo = `module.exports.main = event => event.data`

func functions() []framework.Function {
	reporting := framework.ReportingHandler("")
	return []framework.Function{
		{Name: relay, Source: `module.exports.main = async event => event['ce-type'] &&
  event.emitCloudEvent('` + kind(worker) + `', '` + framework.Source + `', { key: event.data.key })`},
		{Name: worker, Source: reporting, Asleep: true, Max: 2},
		{Name: napper, Source: reporting, Asleep: true},
		{Name: flaky, Source: framework.ReportingHandler("if (Math.random() < 0.3) throw new Error('not yet')")},
		{Name: refuser, Source: `module.exports.main = event => { event.extensions.response.status(422); return 'never' }`},
		{Name: held, Source: reporting, Asleep: true},
		{Name: dormant, Source: reporting, Asleep: true},
		{Name: asked, Source: echo, Asleep: true},
		{Name: exposed, Source: echo, Asleep: true},
		{Name: visited, Source: echo, Asleep: true},
	}
}

func chains() []string { return []string{relay, worker, napper, flaky, refuser, held, dormant} }

// kind returns the type of the events at the beginning of a chain.
func kind(chain string) string { return "upgrade." + chain + ".v1" }

// mix lists the components of the older release while the others are of the newer one.
type mix []string

func components() []string { return []string{"controller", "eventbridge", "gateway", "scaler"} }

// mixes pairs every component with every other one in both directions: older with newer and newer with older.
func mixes() []mix {
	return []mix{
		{"controller", "scaler"},
		{"eventbridge", "gateway"},
		{"controller", "eventbridge"},
		{"gateway", "scaler"},
	}
}

func (m mix) String() string {
	if len(m) == 0 {
		return "all newer"
	}
	return "older " + strings.Join(m, " and ")
}

// templates are pod templates by component.
type templates map[string]corev1.PodTemplateSpec

// remember records the pod templates of the installed chart.
func (s *stage) remember(ctx context.Context, as *templates) error {
	*as = templates{}
	for _, component := range components() {
		deployment, err := s.deployment(ctx, component)
		if err != nil {
			return err
		}
		(*as)[component] = deployment.Spec.Template
	}
	return nil
}

func (s *stage) deployment(ctx context.Context, component string) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: framework.System, Name: name + "-" + component}
	if err := s.cluster.Get(ctx, key, deployment); err != nil {
		return nil, fmt.Errorf("find %s: %w", key.Name, err)
	}
	return deployment, nil
}

// set runs the components of the mix from the older release and the others from the newer one, and waits until only
// such pods remain, besides terminating ones.
func (s *stage) set(ctx context.Context, mix mix) error {
	for _, component := range components() {
		deployment, err := s.deployment(ctx, component)
		if err != nil {
			return err
		}
		before := deployment.DeepCopy()
		deployment.Spec.Template = s.newer[component]
		if slices.Contains(mix, component) {
			deployment.Spec.Template = s.older[component]
		}
		if err := s.cluster.Patch(ctx, deployment, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("change %s: %w", deployment.Name, err)
		}
	}
	for _, component := range components() {
		err := framework.Await(ctx, 2*time.Minute, component+" to be rolled out", func(ctx context.Context) (bool, error) {
			deployment, err := s.deployment(ctx, component)
			return err == nil && rolledOut(deployment), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func rolledOut(deployment *appsv1.Deployment) bool {
	wanted, status := ptr.Deref(deployment.Spec.Replicas, 1), deployment.Status
	return status.ObservedGeneration >= deployment.Generation &&
		status.UpdatedReplicas == wanted && status.Replicas == wanted && status.AvailableReplicas == wanted
}
