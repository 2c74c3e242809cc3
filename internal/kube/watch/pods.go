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

// CacheObjects limits what a cache holds of pods to where they are. NewEndpoints is best used with it: make it part of the
// cache.Options.ByObject, and NewInformer their NewInformer.
func CacheObjects() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.Pod{}: {
		Field: fields.AndSelectors( // pods that have ended keep in their status an address that others have by now
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

// NewInformer makes informers whose lists of pods are read in pages, each of which is cut down before the next is read: at once ten
// thousand whole pods would take some hundred megabytes. An API server that streams lists is not asked for pages.
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
			options.ResourceVersion = "" // the API server answers 0 out of its cache, without pages
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

// place is where a pod is: what a cache keeps of it.
type place struct {
	metav1.ObjectMeta // by which informers know it, and no more
	addresses         []netip.Addr
	node              bool // the addresses are its node's, whose other pods have them too
	ending            bool // its network may be gone already, and its addresses another's
}

// GetObjectKind implements runtime.Object.
func (p *place) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (p *place) DeepCopyObject() runtime.Object {
	copied := *p
	copied.addresses = slices.Clone(p.addresses)
	return &copied
}

// placeOf reads where a pod is. One that has ended, or is on no node, is nowhere, whatever its status says.
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

// isSame reports whether two pods claim the same.
func (p *place) isSame(other *place) bool {
	return p.Namespace == other.Namespace && p.Name == other.Name && p.node == other.node && p.ending == other.ending &&
		slices.Equal(p.addresses, other.addresses)
}

// belongs decides whether an address is one of a namespace's pods, by the pods that claim it. One that pods of two namespaces claim is
// no one's, but for a node's, which belongs to all its pods, and for a pod that ends, which may have given its address back.
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

// places know which pods have which addresses, and tell those who have asked when that changes.
type places struct {
	mu     sync.Mutex
	claims map[netip.Addr][]*place
	asked  map[netip.Addr][]signal
	askers map[signal][]netip.Addr
}

func newPlaces() *places {
	return &places{claims: map[netip.Addr][]*place{}, asked: map[netip.Addr][]signal{}, askers: map[signal][]netip.Addr{}}
}

// changed takes the news of a pod.
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

// ask returns a function that reports whether an address belongs to a pod of the namespace. The signal is raised once when
// the result for one of these addresses may have changed, until the next ask or forget.
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
