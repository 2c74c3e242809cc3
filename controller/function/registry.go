package function

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/registry"
)

const (
	// registryTimeout bounds a query whether a registry has an image.
	registryTimeout = 5 * time.Second
	// registryRequests bounds the concurrent queries, and registryQueue the waiting ones.
	registryRequests = 16
	registryQueue    = 4096
	// reachFresh is how long a registry that has answered counts as reachable.
	reachFresh = 3 * time.Second
	// untrustedDelay is the delay before a registry with an untrusted certificate is queried again.
	untrustedDelay = 5 * time.Minute
)

// knownImage returns the image of the status if it is the wanted one, kept in the current registry, and still there;
// nil otherwise. answered is true when the registry was queried for it and has answered.
func (r *Reconciler) knownImage(s *scope, repository, tag string) (known *v1alpha2.BuildStatus, answered bool, err error) {
	known = s.fn.Status.Build
	if known == nil || known.Tag != tag || !strings.HasPrefix(known.Image, s.registry.Image(repository, "")) {
		return nil, false, nil
	}
	if !pullFails(s) {
		return known, false, nil
	}
	_, digest, _ := strings.Cut(known.Image, "@")
	found, answered, err := r.registries.result(client.ObjectKeyFromObject(s.fn), holds(s.registry, repository, digest))
	if !answered || errors.Is(err, registry.ErrForbidden) {
		return known, false, nil // the pods show whether the credentials are right
	}
	if err != nil || !found {
		return nil, true, err
	}
	return known, true, nil
}

// reach queries the registry, so that no build starts while it is unreachable. The result does not matter: some
// registries refuse to answer for a repository that does not exist yet, and the build checks the credentials.
func (r *Reconciler) reach(s *scope, repository, tag string) (answered bool, err error) {
	probe := holds(s.registry, repository, tag)
	probe.key, probe.maxAge = s.registry, reachFresh
	_, answered, err = r.registries.result(client.ObjectKeyFromObject(s.fn), probe)
	if errors.Is(err, registry.ErrForbidden) {
		return true, nil
	}
	return answered, err
}

// registryClient implements registries with the cached Secrets of a Resolver.
type registryClient struct {
	*images.Resolver
	*queries
}

// newRegistryQueries bounds the requests to registries.
func newRegistryQueries() *queries {
	return newQueries(queryLimits{concurrent: registryRequests, waiting: registryQueue, timeout: registryTimeout})
}

// holds returns the query whether a registry holds an image. It is charged to the namespace of the Secret that names the
// registry.
func holds(at *images.Location, repository, identifier string) query {
	return query{
		key: heldImage{at, repository, identifier}, namespace: at.Secret.Namespace,
		run: func(ctx context.Context) (bool, error) { return at.Holds(ctx, repository, identifier) },
	}
}

// heldImage is the key of a query. A registry whose Secret changes counts as another one.
type heldImage struct {
	at                     *images.Location
	repository, identifier string
}

// unreachableRegistryCondition distinguishes errors that the user has to repair from transient ones.
func unreachableRegistryCondition(at *images.Location, err error) conditionUpdate {
	remedy := "Correct"
	switch {
	case errors.Is(err, registry.ErrDenied):
	case errors.Is(err, registry.ErrUntrusted):
		remedy = "Add the registry's authority to the caBundle of the installation, or correct"
	default:
		return unavailableRegistryCondition(err)
	}
	v := invalidRegistryCondition(fmt.Sprintf("%v. %s the address in Secret %s", err, remedy, at.Secret))
	v.requeueAfter = untrustedDelay
	return v
}

// pullFails reports whether the pods fail to pull their image.
func pullFails(s *scope) bool {
	if s.deployment == nil {
		return false
	}
	template := s.deployment.Spec.Template.Annotations[resources.AnnotationTemplate]
	for i := range s.pods {
		pod := &s.pods[i]
		if !pod.DeletionTimestamp.IsZero() || pod.Annotations[resources.AnnotationTemplate] != template {
			continue
		}
		for j := range pod.Status.ContainerStatuses {
			waiting := pod.Status.ContainerStatuses[j].State.Waiting
			if waiting != nil && (waiting.Reason == reasonImagePullBackOff || waiting.Reason == reasonErrImagePull) {
				return true
			}
		}
	}
	return false
}

// applyRegistrySecret copies the credentials of the Function's registry into its namespace, and repairs changes by
// others. A Secret of another owner under that name is a failure.
func (r *Reconciler) applyRegistrySecret(ctx context.Context, s *scope) (*failure, error) {
	config, err := s.registry.DockerConfig(s.tenant)
	if err != nil {
		return nil, err
	}
	desired, err := kube.ToUnstructured(resources.RegistrySecret(s.fn, config))
	if err != nil {
		return nil, err
	}
	key := registrySecretOf(client.ObjectKeyFromObject(s.fn))
	var live metav1.Object
	found := metadataOf(kindSecret)
	err = r.client.Get(ctx, key, found)
	switch {
	case err == nil:
		live = found
		err := kube.CheckOwner(live, kindSecret, s.fn, v1alpha2.GroupVersion.WithKind(resources.FunctionKind).GroupKind())
		if foreign := (&kube.ForeignError{}); errors.As(err, &foreign) {
			return &failure{reason: v1alpha2.ReasonRegistryInvalid, message: err.Error(), err: err}, nil
		}
		if err != nil {
			return nil, kube.Waiting(err, predecessorDelay)
		}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("look for Secret %q: %w", key, err)
	}
	_, err = r.applier.Apply(ctx, desired, live, kube.Exclusive{"data"})
	return nil, err
}

func registrySecretOf(fn client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: fn.Namespace, Name: resources.RegistrySecretName(fn.Name)}
}

// tenantOf returns the owner of a namespace's images.
func (r *Reconciler) tenantOf(ctx context.Context, namespace string) (registry.Tenant, error) {
	found := metadataOf(kindNamespace)
	if err := r.client.Get(ctx, client.ObjectKey{Name: namespace}, found); err != nil {
		return registry.Tenant{}, fmt.Errorf("look for Namespace %q: %w", namespace, err)
	}
	return registry.Tenant{Namespace: namespace, UID: string(found.UID)}, nil
}

// authorizePull finds the credentials for an earlier version's image when the spec's own image needs none.
func (r *Reconciler) authorizePull(ctx context.Context, s *scope) error {
	if !s.rolledBack || s.registry != nil {
		return nil
	}
	found, err := r.registries.For(ctx, s.fn.Namespace)
	if _, invalid := errors.AsType[*images.InvalidError](err); invalid || found == nil && err == nil {
		return nil // the image may be on the node already; the pods report it if not
	}
	if err != nil {
		return fmt.Errorf("find the registry of %q: %w", s.fn.Name, err)
	}
	if !found.Has(s.code.Image) {
		return nil
	}
	if s.tenant, err = r.tenantOf(ctx, s.fn.Namespace); err != nil {
		return err
	}
	s.registry = found
	_, err = r.applyRegistrySecret(ctx, s)
	return err
}

// pullSecret returns the name of the Secret with which nodes pull the image, empty when none is needed.
func pullSecret(s *scope) string {
	if s.registry == nil || !s.registry.Has(s.code.Image) {
		return ""
	}
	return resources.RegistrySecretName(s.fn.Name)
}

// queryLimits bound the queries to registries.
type queryLimits struct {
	concurrent int64
	waiting    int64 // further queries, beyond the concurrent ones
	timeout    time.Duration
}

// query asks a registry whether it holds an image.
type query struct {
	// key is comparable. Queries with equal keys share one request and its result.
	key any
	// namespace is charged for the duration of the request.
	namespace string
	// maxAge bounds the age of a result that is shared between objects. 0: each object gets a result of its own request.
	maxAge time.Duration
	run    func(context.Context) (bool, error)
}

// queries runs queries outside of the reconciler's workers, because a registry that a tenant chose may take as long as it
// likes to answer. It is safe for concurrent use.
//
//   - result never blocks. An object without a result is enqueued when the result arrives and receives it once, however
//     old it is by then.
//   - Equal queries share one request, and at most one request per key is in flight.
//   - Concurrent requests are bounded and shared fairly by namespace: one namespace uses at most as many as it leaves free,
//     and the waiting namespace that has used the least time so far goes first.
//   - A request has a timeout, and the number of waiting ones is bounded. A query beyond the bound fails at once.
type queries struct {
	limits queryLimits
	pool   *fair.Pool
	events chan event.GenericEvent // objects for which a result has arrived
	wake   chan struct{}

	mu       sync.Mutex
	byKey    map[any]*pendingQuery
	byObject map[types.NamespacedName]*pendingQuery // whose result the object waits for or has not taken
	unsent   []*pendingQuery                        // not yet taken by Start
}

// pendingQuery is a query with its result.
type pendingQuery struct {
	query    query
	objects  map[types.NamespacedName]struct{} // that have not taken the result
	answered time.Time                         // zero: there is no result yet
	found    bool
	err      error
}

// newQueries returns queries that send nothing until Start runs.
func newQueries(limits queryLimits) *queries {
	return &queries{
		limits: limits, pool: fair.NewPool(fair.Limits{Total: limits.concurrent, Waiting: limits.waiting}),
		events: make(chan event.GenericEvent), wake: make(chan struct{}, 1),
		byKey: map[any]*pendingQuery{}, byObject: map[types.NamespacedName]*pendingQuery{},
	}
}

// result returns the result of a query. ready is false while there is none; the object is enqueued when it arrives. An
// object waits for one result at a time: another query replaces the previous one.
func (q *queries) result(object types.NamespacedName, asked query) (found, ready bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	pending := q.byKey[asked.key]
	if previous := q.byObject[object]; previous != nil && previous != pending {
		q.drop(object)
	}
	if pending != nil && !pending.answered.IsZero() {
		_, own := pending.objects[object]
		if own || time.Since(pending.answered) < asked.maxAge {
			q.drop(object)
			return pending.found, true, pending.err
		}
		// Objects that have not taken the previous result wait for the new one.
		pending.query, pending.answered = asked, time.Time{}
		q.send(pending)
	}
	if pending == nil {
		pending = &pendingQuery{query: asked, objects: map[types.NamespacedName]struct{}{}}
		q.byKey[asked.key] = pending
		q.send(pending)
	}
	pending.objects[object] = struct{}{}
	q.byObject[object] = pending
	return false, false, nil
}

// forget removes an object that no longer needs a result.
func (q *queries) forget(object types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drop(object)
}

func (q *queries) drop(object types.NamespacedName) {
	if pending := q.byObject[object]; pending != nil {
		delete(q.byObject, object)
		delete(pending.objects, object)
	}
}

func (q *queries) send(pending *pendingQuery) {
	q.unsent = append(q.unsent, pending)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (q *queries) NeedLeaderElection() bool { return true }

// Start sends queries until ctx ends.
func (q *queries) Start(ctx context.Context) error {
	var requests sync.WaitGroup
	defer requests.Wait()
	for {
		q.mu.Lock()
		unsent := q.unsent
		q.unsent = nil
		q.mu.Unlock()
		for _, pending := range unsent {
			requests.Go(func() { q.settle(ctx, pending) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-q.wake:
		}
	}
}

// settle runs a query and enqueues the objects that wait for its result.
func (q *queries) settle(ctx context.Context, pending *pendingQuery) {
	q.mu.Lock()
	asked := pending.query
	q.mu.Unlock()
	found, err := q.run(ctx, asked)
	if ctx.Err() != nil {
		return
	}
	for _, object := range q.record(pending, found, err) {
		named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
		select {
		case q.events <- event.GenericEvent{Object: named}:
		case <-ctx.Done():
			return
		}
	}
}

func (q *queries) run(ctx context.Context, asked query) (bool, error) {
	if err := q.pool.Acquire(ctx.Done(), asked.namespace, 1); err != nil {
		return false, fmt.Errorf("query a registry for namespace %s: %w", asked.namespace, err)
	}
	defer q.pool.Release(asked.namespace, 1)
	started := time.Now()
	defer func() { q.pool.Charge(asked.namespace, time.Since(started).Milliseconds()) }()
	ctx, cancel := context.WithTimeout(ctx, q.limits.timeout)
	defer cancel()
	return asked.run(ctx)
}

// record stores a result and returns the objects that wait for it. Results that no object waits for are deleted once they
// are too old to be shared.
func (q *queries) record(pending *pendingQuery, found bool, err error) []types.NamespacedName {
	q.mu.Lock()
	defer q.mu.Unlock()
	pending.answered, pending.found, pending.err = time.Now(), found, err
	var objects []types.NamespacedName
	for object := range pending.objects {
		objects = append(objects, object)
	}
	for key, other := range q.byKey {
		if !other.answered.IsZero() && len(other.objects) == 0 && time.Since(other.answered) >= other.query.maxAge {
			delete(q.byKey, key)
		}
	}
	return objects
}
