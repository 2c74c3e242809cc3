package activator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/workload"
)

const (
	// checkDelay is the delay before an activator that did not answer for the Function is queried again.
	checkDelay = 500 * time.Millisecond
	// portDelay is the delay before a Function without a port tries again.
	portDelay = time.Minute
	// foreignDelay is the delay before a slice of another owner with the name of ours is checked again.
	foreignDelay = 30 * time.Second
)

// activators reports the Function of an activator.
type activators interface {
	FunctionAt(ctx context.Context, address string, port int32) (types.UID, error)
}

// Reconciler maintains the slices that list activators.
type Reconciler struct {
	client         client.Client // reads from the cache and writes
	applier        *kube.Applier
	recorder       events.EventRecorder
	clock          clock.PassiveClock
	gatewayService types.NamespacedName
	scalesToZero   func(context.Context) (bool, error)
	lost           func(address string) bool
	activators     activators
	memories       *memories
	ports          *ports
	metrics        *metrics
}

// Reconcile brings the slices of one Function, or of a workload that a Service names, to their desired state.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s, err := r.gather(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	families := s.families()
	if err := r.remove(ctx, s, families); err != nil {
		return kube.Result(err)
	}
	if !s.wanted {
		r.forget(s)
		return ctrl.Result{}, nil
	}
	if len(families) == 0 {
		return ctrl.Result{}, nil // no gateway has ever existed
	}
	port, err := r.portOf(ctx, s)
	if err != nil {
		return kube.Result(err)
	}
	listed, after := r.memories.decide(s.key, s.ready && !s.onPath, s.isListed(), s.now)
	complete, err := r.write(ctx, s, families, port, listed)
	if !complete && (after == 0 || after > checkDelay) {
		after = checkDelay
	}
	if err != nil {
		return kube.Result(err)
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// isListed reports whether a slice of the Function lists an activator.
func (s *scope) isListed() bool {
	for _, listing := range s.listings() {
		if len(listing.Addresses) > 0 {
			return true
		}
	}
	return false
}

// remove deletes the slices that should not exist.
func (r *Reconciler) remove(ctx context.Context, s *scope, families []discoveryv1.AddressType) error {
	var errs []error
	for i := range s.ours {
		slice := &s.ours[i]
		if s.keeps(slice, families) || !slice.DeletionTimestamp.IsZero() {
			continue
		}
		stub := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: slice.Name}}
		err := r.client.Delete(ctx, stub, client.Preconditions{UID: new(slice.UID)})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			continue // it was deleted, or replaced by another one
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("delete EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, err))
			continue
		}
		if isForged(slice) {
			r.metrics.forged.Inc()
			ctrl.LoggerFrom(ctx).Info("deleted an EndpointSlice with the labels of activators that this controller did not write",
				"slice", slice.Name)
		}
	}
	return errors.Join(errs...)
}

// forget drops all state of a Function that HTTP does not wake, or no longer.
func (r *Reconciler) forget(s *scope) {
	if !r.memories.forget(s.key) {
		return
	}
	r.ports.release(s.key, s.now)
	for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		r.applier.Forget(types.NamespacedName{Namespace: s.key.Namespace, Name: activation.SliceName(s.key.Name, family)})
	}
}

// scope holds everything that one reconciliation reads about a Function. Its objects belong to the cache and must not
// be modified.
type scope struct {
	key types.NamespacedName
	now time.Time

	// The Function, or the Service of another workload, and the Service of either; nil if absent.
	subject client.Object
	service *corev1.Service
	// ours are the slices with the label of this controller.
	ours     []discoveryv1.EndpointSlice
	gateways gateways
	// ready is true when a pod is ready.
	ready bool

	// wanted is true when HTTP may wake the Function.
	wanted bool
	// portName is that of the Service's only port, by which nodes find its endpoints.
	portName string
	// onPath is true when callers have no other way than through activators, whether or not a pod is ready.
	onPath bool
}

// gather reads the live objects.
func (r *Reconciler) gather(ctx context.Context, key types.NamespacedName) (*scope, error) {
	s := &scope{key: key, now: r.clock.Now()}
	all, err := slicesOf(ctx, r.client, key)
	if err != nil {
		return nil, err
	}
	s.ready = isAwake(all)
	for i := range all {
		if activation.IsOurs(&all[i]) {
			s.ours = append(s.ours, all[i])
		}
	}
	if s.wanted, err = r.gatherSubject(ctx, s); err != nil || !s.wanted {
		return s, err
	}
	list, err := slicesOf(ctx, r.client, r.gatewayService)
	if err != nil {
		return nil, err
	}
	s.gateways = gatewaysOf(list, r.lost)
	return s, nil
}

// gatherSubject reports whether HTTP may wake what serves the Service, and reads the objects that this depends on.
func (r *Reconciler) gatherSubject(ctx context.Context, s *scope) (bool, error) {
	if s.key.Name == "" { // a slice without the label
		return false, nil
	}
	service := &corev1.Service{}
	if err := r.client.Get(ctx, s.key, service, client.UnsafeDisableDeepCopy); err != nil {
		return false, ignoreNotFound(err, "get Service %q: %w", s.key)
	}
	s.service = service
	if !service.DeletionTimestamp.IsZero() {
		return false, nil
	}
	if activation.WakesWorkload(service) {
		port, _ := activation.OnlyPort(service)
		_, s.onPath = activation.PodPort(port)
		s.subject, s.portName = service, port.Name
		return true, nil
	}
	return r.gatherFunction(ctx, s)
}

// gatherFunction reports whether HTTP may wake the Function of the Service.
func (r *Reconciler) gatherFunction(ctx context.Context, s *scope) (bool, error) {
	fn := &v1alpha2.Function{}
	if err := r.client.Get(ctx, s.key, fn, client.UnsafeDisableDeepCopy); err != nil { // its source may be long
		return false, ignoreNotFound(err, "get Function %q: %w", s.key)
	}
	s.subject, s.portName = fn, activation.PortName
	if !mayBeWoken(fn) || !metav1.IsControlledBy(s.service, fn) {
		return false, nil
	}
	may, err := r.scalesToZero(ctx)
	return may && err == nil, err
}

func ignoreNotFound(err error, format string, key types.NamespacedName) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf(format, key, err)
}

// mayBeWoken reports whether a Function may sleep and be woken by HTTP.
func mayBeWoken(fn *v1alpha2.Function) bool {
	if !fn.DeletionTimestamp.IsZero() || fn.Spec.ScaleConfig == nil {
		return false
	}
	tuning, _ := workload.TuningOf(fn.Annotations, workload.Tuning{}) // the Function's status reports errors
	low, _ := workload.ReplicaBounds(fn)
	return low == 0 && tuning.HTTPWake
}

// families returns the address families of the Function's slices: the gateways', or while there is no gateway those of
// its present slices.
func (s *scope) families() []discoveryv1.AddressType {
	if len(s.gateways.families) > 0 {
		return s.gateways.families
	}
	var present []discoveryv1.AddressType
	for i := range s.ours {
		if s.ours[i].AddressType != discoveryv1.AddressTypeFQDN {
			present = append(present, s.ours[i].AddressType)
		}
	}
	slices.Sort(present)
	return slices.Compact(present)
}

// listings returns the listings of the Function's slices, the oldest first.
func (s *scope) listings() []aged {
	var found []aged
	for i := range s.ours {
		slice := &s.ours[i]
		listing, ok := activation.ListingOf(slice)
		if ok && listing.UID == s.subject.GetUID() && isControlledBy(slice, s.service.GetUID()) {
			found = append(found, aged{Listing: listing, created: slice.CreationTimestamp.Time})
		}
	}
	slices.SortStableFunc(found, func(a, b aged) int { return a.created.Compare(b.created) })
	return found
}

// aged is a listing with the creation time of its slice.
type aged struct {
	activation.Listing
	created time.Time
}

// isOlder decides between two Functions with the same port.
func (a aged) isOlder(b aged) bool {
	if !a.created.Equal(b.created) {
		return a.created.Before(b.created)
	}
	return a.Function.String() < b.Function.String()
}

const kindService = "Service"

// sliceOf returns the desired slice of a Function for one family. The owner reference does not block the deletion of
// the Service, which would require more rights.
func sliceOf(s *scope, family discoveryv1.AddressType, port int32, listed []gateway) (*unstructured.Unstructured, error) {
	config := discoveryv1ac.EndpointSlice(activation.SliceName(s.key.Name, family), s.key.Namespace).
		WithLabels(map[string]string{
			discoveryv1.LabelServiceName: s.key.Name,
			discoveryv1.LabelManagedBy:   activation.ManagedBy,
			v1alpha2.LabelUUID:           string(s.subject.GetUID()),
		}).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(corev1.SchemeGroupVersion.String()).
			WithKind(kindService).
			WithName(s.service.GetName()).
			WithUID(s.service.GetUID()).
			WithController(true)).
		WithAddressType(family).
		WithPorts(discoveryv1ac.EndpointPort().WithName(s.portName).WithPort(port).WithProtocol(corev1.ProtocolTCP))
	for _, each := range listed {
		endpoint := discoveryv1ac.Endpoint().WithAddresses(each.address).
			WithConditions(discoveryv1ac.EndpointConditions().WithReady(true).WithServing(true).WithTerminating(false))
		if each.node != "" {
			endpoint.WithNodeName(each.node)
		}
		config.WithEndpoints(endpoint)
	}
	object, err := kube.ToUnstructured(config)
	if err != nil {
		return nil, err
	}
	if len(listed) == 0 {
		object.Object["endpoints"] = []any{} // own the empty list: no one else adds endpoints
	}
	return object, nil
}

// keeps reports whether a slice of ours is desired. Its content is repaired.
func (s *scope) keeps(slice *discoveryv1.EndpointSlice, families []discoveryv1.AddressType) bool {
	return s.wanted && slice.Name == activation.SliceName(s.key.Name, slice.AddressType) &&
		isControlledBy(slice, s.service.GetUID()) && slices.Contains(families, slice.AddressType)
}

// isForged reports whether this controller never wrote a slice: the slice does not belong to the Service that it names.
func isForged(slice *discoveryv1.EndpointSlice) bool {
	owner := metav1.GetControllerOf(slice)
	return owner == nil || owner.Kind != kindService || owner.Name != slice.Labels[discoveryv1.LabelServiceName] ||
		slice.Name != activation.SliceName(owner.Name, slice.AddressType)
}

func isControlledBy(slice *discoveryv1.EndpointSlice, service types.UID) bool {
	owner := metav1.GetControllerOf(slice)
	return owner != nil && owner.UID == service
}

// known returns the addresses that a slice lists already for this Function at this port.
func known(slice *discoveryv1.EndpointSlice, function types.UID, port int32) map[string]bool {
	if slice == nil {
		return nil
	}
	listing, ok := activation.ListingOf(slice)
	if !ok || listing.UID != function || listing.Port != port {
		return nil
	}
	addresses := make(map[string]bool, len(listing.Addresses))
	for _, address := range listing.Addresses {
		addresses[address] = true
	}
	return addresses
}

// write applies a slice for each family. complete is false while an activator that should be listed is not.
func (r *Reconciler) write(
	ctx context.Context, s *scope, families []discoveryv1.AddressType, port int32, listed bool,
) (complete bool, err error) {
	complete = true
	var errs []error
	for _, family := range families {
		live, err := r.liveSlice(ctx, s, family)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var answering []gateway
		if listed {
			ready := s.gateways.ready[family]
			answering = r.verified(ctx, s, known(live, s.subject.GetUID(), port), port, ready)
			complete = complete && len(answering) == len(ready)
		}
		errs = append(errs, r.apply(ctx, s, family, port, answering, live))
	}
	return complete, errors.Join(errs...)
}

func (r *Reconciler) apply(
	ctx context.Context, s *scope, family discoveryv1.AddressType, port int32, listed []gateway, live *discoveryv1.EndpointSlice,
) error {
	desired, err := sliceOf(s, family, port, listed)
	if err != nil {
		return err
	}
	var present metav1.Object
	if live != nil {
		present = live
	}
	_, err = r.applier.Apply(ctx, desired, present)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the namespace is being deleted
	}
	return err
}

// liveSlice returns the slice with the name of ours. A slice of another owner is an error and stays as it is.
func (r *Reconciler) liveSlice(ctx context.Context, s *scope, family discoveryv1.AddressType) (*discoveryv1.EndpointSlice, error) {
	slice := &discoveryv1.EndpointSlice{}
	key := types.NamespacedName{Namespace: s.key.Namespace, Name: activation.SliceName(s.key.Name, family)}
	err := r.client.Get(ctx, key, slice)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get EndpointSlice %q: %w", key, err)
	}
	if err := kube.CheckOwner(slice, "EndpointSlice", s.service, schema.GroupKind{Kind: kindService}); err != nil {
		return nil, kube.Waiting(err, foreignDelay)
	}
	return slice, nil
}

// verified returns the gateways that are listed already, and those that answer for this Function at its port.
func (r *Reconciler) verified(ctx context.Context, s *scope, known map[string]bool, port int32, ready []gateway) []gateway {
	answers := make([]bool, len(ready))
	var asked sync.WaitGroup
	for i, each := range ready {
		if known[each.address] {
			answers[i] = true
			continue
		}
		asked.Go(func() {
			function, err := r.activators.FunctionAt(ctx, each.address, port)
			answers[i] = err == nil && function == s.subject.GetUID()
		})
	}
	asked.Wait()
	var found []gateway
	for i, each := range ready {
		if answers[i] {
			found = append(found, each)
		}
	}
	return found
}
