package controller

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/e2e/rig"
)

const (
	controllerName = "controller"
	readyTimeout   = time.Minute
	pollInterval   = 200 * time.Millisecond
	steady         = 5 // polls without work mean that there is none

	metricReconciled = "controller_runtime_reconcile_total"
	metricQueued     = "workqueue_depth"
	metricWorking    = "controller_runtime_active_workers"
)

// controller is a running one.
type controller struct {
	process  *rig.Process
	address  string
	profiles string
}

// start runs the controller as the chart does, at our servers.
func (b *bench) start(ctx context.Context) error {
	ports, err := rig.Ports(2)
	if err != nil {
		return err
	}
	address, profiles := "127.0.0.1:"+strconv.Itoa(ports[0]), "127.0.0.1:"+strconv.Itoa(ports[1])
	args := append(slices.Clone(b.shipped.args), "--nats-url="+b.nats, "--metrics-address="+address) // the last one of a flag holds
	if b.settings.profile != "" {
		args = append(args, "--pprof-address="+profiles)
	}
	process, err := b.rig.Run(controllerName, append(slices.Clone(b.shipped.environment), "KUBECONFIG="+b.cluster.kubeconfig), b.binary, args...)
	if err != nil {
		return err
	}
	b.running = &controller{process: process, address: "http://" + address, profiles: "http://" + profiles}
	for deadline := time.Now().Add(readyTimeout); ; {
		if _, err = get(ctx, b.running.address+"/readyz"); err == nil {
			return nil
		}
		select {
		case <-process.Done():
			return errors.New("the controller has ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the controller is not ready after %s: %w", readyTimeout, err)
		}
	}
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask the controller: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the controller: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", response.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the controller: %w", err)
	}
	return body, nil
}

// work is what a controller says of its queues.
type work struct {
	reconciled map[string]int // by controller
	open       int            // queued, or being worked on
}

func (c *controller) work(ctx context.Context) (w work, err error) {
	text, err := get(ctx, c.address+"/metrics")
	if err != nil {
		return w, err
	}
	return workOf(text)
}

// workOf reads metrics.
func workOf(text []byte) (work, error) {
	w := work{reconciled: map[string]int{}}
	for line := range strings.Lines(string(text)) {
		name, rest, labelled := strings.Cut(line, "{")
		if !labelled || !slices.Contains([]string{metricReconciled, metricQueued, metricWorking}, name) {
			continue
		}
		labels, number, _ := strings.Cut(rest, "} ")
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil {
			return w, fmt.Errorf("read metrics: %q: %w", line, err)
		}
		if name != metricReconciled {
			w.open += int(value)
			continue
		}
		if _, from, found := strings.Cut(labels, `controller="`); found {
			controller, _, _ := strings.Cut(from, `"`)
			w.reconciled[controller] += int(value)
		}
	}
	return w, nil
}

func (c *controller) busy(ctx context.Context) (bool, error) {
	w, err := c.work(ctx)
	return w.open > 0, err
}

// awaitResync returns when each object was reconciled and nothing is queued. The caches are read before anything is reconciled, so
// a queue that is empty then has had them all.
func (c *controller) awaitResync(ctx context.Context, count int) (done time.Time, err error) {
	for idle := 0; ; {
		w, err := c.work(ctx)
		if err != nil {
			return done, err
		}
		switch {
		case w.reconciled["function"] < count || w.reconciled["subscription"] < count || w.open > 0:
			idle = 0
		case idle == 0:
			done, idle = time.Now(), 1
		default:
			idle++
		}
		if idle >= steady {
			return done, nil
		}
		select {
		case <-c.process.Done():
			return done, errors.New("the controller has ended")
		case <-ctx.Done():
			return done, fmt.Errorf("%v are reconciled of %d, and %d are queued: %w", w.reconciled, count, w.open, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// takeProfile stores the heap, if a folder is named.
func (c *controller) takeProfile(ctx context.Context, dir string) error {
	if dir == "" {
		return nil
	}
	heap, err := get(ctx, c.profiles+"/debug/pprof/heap")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "controller.heap"), heap, 0o600)
}

const (
	writers        = 4 // of statuses, at a time
	reportInterval = 15 * time.Second
)

// saying is a status for an object.
type saying struct {
	of     client.Object
	status any
}

// settled watches until all have the status that they stay with, and meanwhile says what Kubernetes and KEDA would say.
type settled struct {
	cluster *cluster
	count   int
	stop    context.CancelFunc
	queue   chan saying
	failed  atomic.Pointer[error]

	mu            sync.Mutex
	functions     map[types.UID]bool
	subscriptions map[types.UID]bool
}

func watchSettled(ctx context.Context, c *cluster, count int) (*settled, error) {
	watching, stop := context.WithCancel(ctx)
	s := &settled{
		cluster: c, count: count, stop: stop, queue: make(chan saying, 8*count), // each of two kinds changes a few times
		functions: map[types.UID]bool{}, subscriptions: map[types.UID]bool{},
	}
	scaledObject := &unstructured.Unstructured{}
	scaledObject.SetGroupVersionKind(schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"})
	objects, err := cache.New(c.Config, cache.Options{Scheme: c.Scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		stop()
		return nil, fmt.Errorf("watch: %w", err)
	}
	for _, kind := range []client.Object{&serverlessv1alpha2.Function{}, &eventingv1alpha2.Subscription{}, &appsv1.Deployment{}, scaledObject} {
		informer, err := objects.GetInformer(watching, kind, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: s.see, UpdateFunc: func(_, object any) { s.see(object) },
			})
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("watch: %w", err)
		}
	}
	go func() { _ = objects.Start(watching) }()
	for range writers {
		go s.write(watching)
	}
	return s, nil
}

// see takes over one object.
func (s *settled) see(object any) {
	switch typed := object.(type) {
	case *serverlessv1alpha2.Function:
		s.note(s.functions, typed, isRunning(typed))
	case *eventingv1alpha2.Subscription:
		s.note(s.subscriptions, typed, typed.Status.Ready)
	case *appsv1.Deployment:
		if typed.Status.ObservedGeneration < typed.Generation {
			s.queue <- saying{typed, rolledOut(typed)}
		}
	case *unstructured.Unstructured:
		if _, known, _ := unstructured.NestedSlice(typed.Object, "status", "conditions"); !known {
			s.queue <- saying{typed, obeyed()}
		}
	}
}

func (s *settled) note(set map[types.UID]bool, object client.Object, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is {
		set[object.GetUID()] = true
		return
	}
	delete(set, object.GetUID())
}

// isRunning reports whether all is said of a Function that will be.
func isRunning(fn *serverlessv1alpha2.Function) bool {
	for _, kind := range []string{
		serverlessv1alpha2.ConditionConfigurationReady, serverlessv1alpha2.ConditionRunning, serverlessv1alpha2.ConditionScaling,
	} {
		if !meta.IsStatusConditionTrue(fn.Status.Conditions, kind) {
			return false
		}
	}
	return true
}

// rolledOut is what Kubernetes says of a Deployment with a pod that is ready.
func rolledOut(seen *appsv1.Deployment) appsv1.DeploymentStatus {
	now := metav1.Now()
	condition := func(kind appsv1.DeploymentConditionType, reason string) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastUpdateTime: now, LastTransitionTime: now,
		}
	}
	return appsv1.DeploymentStatus{
		ObservedGeneration: seen.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{
			condition(appsv1.DeploymentAvailable, "MinimumReplicasAvailable"),
			condition(appsv1.DeploymentProgressing, "NewReplicaSetAvailable"),
		},
	}
}

// obeyed is what KEDA says of a ScaledObject that it has taken over.
func obeyed() any {
	return map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "True", "reason": "ScaledObjectReady", "message": "ScaledObject is defined correctly and is ready for scaling",
	}}}
}

// write stores what is said.
func (s *settled) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case said := <-s.queue:
			if err := s.say(ctx, said); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
				err = fmt.Errorf("say that all is well with %T %s: %w", said.of, said.of.GetName(), err)
				s.failed.Store(&err)
			}
		}
	}
}

func (s *settled) say(ctx context.Context, said saying) error {
	patch, err := json.Marshal(map[string]any{"status": said.status})
	if err != nil {
		return err
	}
	target, ok := said.of.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", said.of)
	}
	return s.cluster.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner("bench"))
}

// await returns when all are settled.
func (s *settled) await(ctx context.Context) error {
	for reported := time.Now(); ; {
		s.mu.Lock()
		functions, subscriptions := len(s.functions), len(s.subscriptions)
		s.mu.Unlock()
		if functions >= s.count && subscriptions >= s.count {
			return nil
		}
		if failed := s.failed.Load(); failed != nil {
			return *failed
		}
		if time.Since(reported) > reportInterval {
			reported = time.Now()
			fmt.Printf("... %d Functions and %d Subscriptions of %d have their status\n", functions, subscriptions, s.count)
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d Functions and %d Subscriptions of %d have their status: %w", functions, subscriptions, s.count, err)
		}
	}
}

// calls are how often the controller did what, such as "patch functions/status".
type calls map[string]int

// audit counts what the API server has logged.
type audit struct {
	path    string
	offset  int64
	counted calls
}

// entry is what matters of a line of the log.
type entry struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	ObjectRef  struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
}

// calls counts all since the beginning.
func (c *cluster) calls() (calls, error) {
	file, err := os.Open(c.audit.path)
	if errors.Is(err, os.ErrNotExist) {
		return calls{}, nil // nothing was asked yet
	}
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(c.audit.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	whole := bytes.LastIndexByte(text, '\n') + 1 // the last line may be half written
	c.audit.offset += int64(whole)
	if err := c.audit.counted.add(text[:whole]); err != nil {
		return nil, err
	}
	return maps.Clone(c.audit.counted), nil
}

// add counts lines of the log.
func (c calls) add(lines []byte) error {
	for line := range bytes.Lines(lines) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		what := e.Verb + " " + e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			what += "/" + e.ObjectRef.Subresource
		}
		if e.ObjectRef.Resource == "" {
			path, _, _ := strings.Cut(e.RequestURI, "?")
			what += path
		}
		c[what]++
	}
	return nil
}

func (c calls) since(before calls) calls {
	difference := calls{}
	for what, count := range c {
		if count > before[what] {
			difference[what] = count - before[what]
		}
	}
	return difference
}

func (c calls) total() (sum int) {
	for _, count := range c {
		sum += count
	}
	return sum
}

// writes are those that change objects; a lease and Events say nothing of them.
func (c calls) writes() (sum int) {
	for what, count := range c {
		verb, resource, _ := strings.Cut(what, " ")
		if slices.Contains([]string{"create", "update", "patch", "delete"}, verb) && resource != "leases" && resource != "events" {
			sum += count
		}
	}
	return sum
}

func (c calls) String() string {
	return c.list(strconv.Itoa)
}

// per is String for each of n.
func (c calls) per(n int) string {
	return fmt.Sprintf("%.1f: ", float64(c.total())/float64(n)) +
		c.list(func(count int) string { return fmt.Sprintf("%.2f", float64(count)/float64(n)) })
}

// list begins with what was most.
func (c calls) list(show func(int) string) string {
	if len(c) == 0 {
		return "none"
	}
	names := slices.SortedFunc(maps.Keys(c), func(a, b string) int { return cmp.Or(c[b]-c[a], cmp.Compare(a, b)) })
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = show(c[name]) + " " + name
	}
	return strings.Join(parts, ", ")
}
