package activator

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	portCount = activation.LastPort - activation.FirstPort + 1
	// restTime is how long a released port stays unused. Nodes, and clients with persistent connections, may still send
	// requests for the previous Function there.
	restTime = 5 * time.Minute
)

// errNoPort explains why a Function has no activators.
var errNoPort = errors.New("no port is left for its activators: the namespace holds as many as are free, or all are taken. HTTP does not " +
	"wake the Function, or the workload, which therefore stays awake. Delete some, or exclude some from waking by HTTP with the annotation rouse.run/http-wake: disabled")

// ports allocates the ports of activators: each belongs to one Function, whose slices contain it. The allocations of
// this process take precedence over later changes of the slices by others. It is safe for concurrent use.
type ports struct {
	mu         sync.Mutex
	byFunction map[types.NamespacedName]int32
	byPort     map[int32]types.NamespacedName
	inSpace    map[string]int      // number of ports by namespace
	resting    map[int32]time.Time // until when
}

func newPorts() *ports {
	return &ports{
		byFunction: map[types.NamespacedName]int32{}, byPort: map[int32]types.NamespacedName{},
		inSpace: map[string]int{}, resting: map[int32]time.Time{},
	}
}

// of returns the port of a Function, if this process has allocated it.
func (p *ports) of(function types.NamespacedName) (int32, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	port, ok := p.byFunction[function]
	return port, ok
}

// claim gives a Function the port that its slices had before this process started, unless another Function has it.
func (p *ports) claim(function types.NamespacedName, port int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, taken := p.byPort[port]; taken {
		return false
	}
	p.give(function, port)
	return true
}

// allocate gives a Function a new port: its preferred one when that is free, or the next free one. taken reports ports
// in slices of Functions that this process has not reconciled yet.
func (p *ports) allocate(function types.NamespacedName, uid types.UID, taken func(port int32) bool, now time.Time) (int32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.resting, func(_ int32, until time.Time) bool { return !now.Before(until) })
	if p.inSpace[function.Namespace] >= portCount-len(p.byPort) {
		return 0, errNoPort
	}
	for offset, first := int32(0), preferred(uid); offset < portCount; offset++ {
		port := activation.FirstPort + (first+offset)%portCount
		_, held := p.byPort[port]
		_, rests := p.resting[port]
		if !held && !rests && !taken(port) {
			p.give(function, port)
			return port, nil
		}
	}
	return 0, errNoPort
}

// preferred spreads Functions over the ports, so that allocations rarely collide.
func preferred(uid types.UID) int32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(uid))
	return int32(hash.Sum32() % portCount)
}

func (p *ports) give(function types.NamespacedName, port int32) {
	p.byFunction[function], p.byPort[port] = port, function
	p.inSpace[function.Namespace]++
}

// release returns the port of a Function to the pool.
func (p *ports) release(function types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	port, ok := p.byFunction[function]
	if !ok {
		return
	}
	delete(p.byFunction, function)
	delete(p.byPort, port)
	p.resting[port] = now.Add(restTime)
	if p.inSpace[function.Namespace]--; p.inSpace[function.Namespace] == 0 {
		delete(p.inSpace, function.Namespace)
	}
}

// used returns the number of allocated ports.
func (p *ports) used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byPort)
}

// portOf returns the port of the Function's activators. After a restart it is the one in the slices, unless another
// Function has a better claim to it.
func (r *Reconciler) portOf(ctx context.Context, s *scope) (int32, error) {
	if port, ok := r.ports.of(s.key); ok {
		return port, nil
	}
	for _, own := range s.listings() {
		contested, err := r.isContested(ctx, own)
		if err != nil {
			return 0, err
		}
		if !contested && r.ports.claim(s.key, own.Port) {
			return own.Port, nil
		}
		ctrl.LoggerFrom(ctx).Info("moving activators, because another Function has their port", "port", own.Port)
	}
	port, err := r.ports.allocate(s.key, s.subject.GetUID(), func(port int32) bool { return r.isShown(ctx, s.key, port) }, s.now)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("no port is left for the activators of the Function")
		r.recorder.Eventf(s.subject, nil, corev1.EventTypeWarning, "NoActivatorPort", "ListActivators", "%s", err.Error())
		return 0, kube.Waiting(err, portDelay)
	}
	return port, nil
}

// isShown reports whether a slice of another Function contains a port.
func (r *Reconciler) isShown(ctx context.Context, function types.NamespacedName, port int32) bool {
	others, err := r.othersAt(ctx, function, port)
	return err != nil || len(others) > 0
}

// isContested reports whether another Function that HTTP may wake has an older slice with this port.
func (r *Reconciler) isContested(ctx context.Context, own aged) (bool, error) {
	others, err := r.othersAt(ctx, own.Function, own.Port)
	if err != nil {
		return false, err
	}
	for _, other := range others {
		if !other.isOlder(own) {
			continue
		}
		s := &scope{key: other.Function}
		wanted, err := r.gatherSubject(ctx, s)
		if err != nil {
			return false, err
		}
		if wanted && s.subject.GetUID() == other.UID {
			return true, nil
		}
	}
	return false, nil
}

// othersAt returns the listings of other Functions with a port.
func (r *Reconciler) othersAt(ctx context.Context, function types.NamespacedName, port int32) ([]aged, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := r.client.List(ctx, list, client.MatchingFields{portIndex: strconv.Itoa(int(port))}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices with port %d: %w", port, err)
	}
	var others []aged
	for i := range list.Items {
		if listing, ok := activation.ListingOf(&list.Items[i]); ok && listing.Function != function {
			others = append(others, aged{Listing: listing, created: list.Items[i].CreationTimestamp.Time})
		}
	}
	return others, nil
}
