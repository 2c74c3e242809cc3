package watch

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CacheObjects limits the fields of pods in a cache to their addresses and location, for NewEndpoints. It belongs into
// cache.Options.ByObject, together with NewInformer.
func CacheObjects() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.Pod{}: {
		Field: fields.AndSelectors( // the status of a pod that has ended contains an address that may since belong to another pod
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
		),
		Transform: func(object any) (any, error) {
			if pod, ok := object.(*corev1.Pod); ok {
				return placeOf(pod), nil
			}
			return object, nil
		},
	}}
}

// NewInformer makes informers that read lists of pods in pages, each of which is reduced before the next is read: ten
// thousand whole pods at once would take some hundred megabytes. API servers that stream lists receive no requests for
// pages.
func NewInformer(
	lw toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	if all, ok := lw.(*toolscache.ListWatch); ok && all.ListWithContextFunc != nil {
		if _, ok := kind.(*corev1.Pod); ok {
			all.ListWithContextFunc = inPages(all.ListWithContextFunc)
		}
	}
	return toolscache.NewSharedIndexInformer(lw, kind, resync, indexers)
}

func inPages(list toolscache.ListWithContextFunc) toolscache.ListWithContextFunc {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		if options.ResourceVersion == "0" {
			options.ResourceVersion = "" // at version 0 the API server responds from its cache, without pages
		}
		page, err := list(ctx, options)
		if pods, ok := page.(*corev1.PodList); ok && err == nil {
			for i := range pods.Items {
				pod := &pods.Items[i]
				pods.Items[i] = corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{
						Namespace: pod.Namespace, Name: pod.Name, ResourceVersion: pod.ResourceVersion, DeletionTimestamp: pod.DeletionTimestamp,
					},
					Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork},
					Status: corev1.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs},
				}
			}
		}
		return page, err
	}
}

// place is the location of a pod: the part that a cache keeps.
type place struct {
	metav1.ObjectMeta // only the fields that informers need
	addresses         []netip.Addr
	node              bool // a host-network pod: other pods of the node have the same addresses
	ending            bool // terminating: its addresses may already belong to another pod
}

// GetObjectKind implements runtime.Object.
func (p *place) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (p *place) DeepCopyObject() runtime.Object {
	copied := *p
	copied.addresses = slices.Clone(p.addresses)
	return &copied
}

// placeOf returns the location of a pod. A pod that has ended, or has no node, has no addresses, regardless of its
// status.
func placeOf(pod *corev1.Pod) *place {
	p := &place{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, ResourceVersion: pod.ResourceVersion},
		node:       pod.Spec.HostNetwork,
		ending:     !pod.DeletionTimestamp.IsZero(),
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.Spec.NodeName == "" {
		return p
	}
	for _, ip := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			p.addresses = append(p.addresses, address.Unmap())
		}
	}
	return p
}

// isSame reports whether two pods have the same addresses and state.
func (p *place) isSame(other *place) bool {
	return p.Namespace == other.Namespace && p.Name == other.Name && p.node == other.node && p.ending == other.ending &&
		slices.Equal(p.addresses, other.addresses)
}

// belongs decides whether an address belongs to a pod of a namespace, given the pods that claim it. An address that
// pods of two namespaces claim belongs to no pod, except for a node's, which belongs to all host-network pods, and a
// terminating pod's, which may have released it.
func belongs(claims []*place, namespace string) bool {
	var ours, living, others, livingOthers bool
	for _, p := range claims {
		switch {
		case p.Namespace == namespace:
			ours, living = true, living || !p.ending
		case !p.node:
			others, livingOthers = true, livingOthers || !p.ending
		}
	}
	if living {
		return !livingOthers
	}
	return ours && !others
}

// places maps addresses to pods, and notifies subscribers of changes.
type places struct {
	mu     sync.Mutex
	claims map[netip.Addr][]*place
	asked  map[netip.Addr][]signal
	askers map[signal][]netip.Addr
}

func newPlaces() *places {
	return &places{claims: map[netip.Addr][]*place{}, asked: map[netip.Addr][]signal{}, askers: map[signal][]netip.Addr{}}
}

// changed processes an event of a pod.
func (s *places) changed(before, after any) {
	was, is := asPlace(before), asPlace(after)
	if was != nil && is != nil && was.isSame(is) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was != nil {
		for _, address := range was.addresses {
			s.set(address, slices.DeleteFunc(s.claims[address], func(p *place) bool { return p.Namespace == was.Namespace && p.Name == was.Name }))
		}
	}
	if is != nil {
		for _, address := range is.addresses {
			s.set(address, append(s.claims[address], is))
		}
	}
}

// set replaces the claims of an address. The lock is held.
func (s *places) set(address netip.Addr, claims []*place) {
	if len(claims) == 0 {
		delete(s.claims, address)
	} else {
		s.claims[address] = claims
	}
	for _, asker := range s.asked[address] {
		asker.raise()
	}
}

func asPlace(object any) *place {
	switch typed := object.(type) {
	case *place:
		return typed
	case *corev1.Pod:
		return placeOf(typed)
	default:
		return nil
	}
}

// ask returns a function that reports whether an address belongs to a pod of the namespace. The signal is raised once
// when the result for one of these addresses may have changed, until the next ask or forget.
func (s *places) ask(asker signal, namespace string) func(address netip.Addr) bool {
	s.forget(asker)
	return func(address netip.Addr) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked[address] = append(s.asked[address], asker)
		s.askers[asker] = append(s.askers[asker], address)
		return belongs(s.claims[address], namespace)
	}
}

func (s *places) forget(asker signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, address := range s.askers[asker] {
		left := slices.DeleteFunc(s.asked[address], func(other signal) bool { return other == asker })
		if len(left) == 0 {
			delete(s.asked, address)
		} else {
			s.asked[address] = left
		}
	}
	delete(s.askers, asker)
}
