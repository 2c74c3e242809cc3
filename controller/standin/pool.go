package standin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// appears bounds the time after which a created pod that the cache does not show is taken for deleted.
const appears = time.Minute

// member is a stand-in that this process has created, until it serves.
type member struct {
	runtime v1alpha2.Runtime
	key     string
	uid     types.UID // empty while it is created
	since   time.Time
	seen    bool // in the cache
	taken   bool // for a Function
}

// membership is what the pool knows of a pod.
type membership int

const (
	foreign membership = iota // another process made it
	waits
	taken
)

// pool holds the keys of the stand-ins that wait.
type pool struct {
	mu      sync.Mutex
	members map[client.ObjectKey]member
	spaces  map[string]int // members by namespace
}

func newPool() *pool {
	return &pool{members: map[client.ObjectKey]member{}, spaces: map[string]int{}}
}

// add returns the digest of the key of a new stand-in, before it is created.
func (p *pool) add(pod client.ObjectKey, runtime v1alpha2.Runtime, now time.Time) (digest string) {
	key := rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members[pod] = member{runtime: runtime, key: key, since: now}
	p.spaces[pod.Namespace]++
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func (p *pool) created(pod client.ObjectKey, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, ok := p.members[pod]; ok {
		one.uid = uid
		p.members[pod] = one
	}
}

// take returns the key of a stand-in once.
func (p *pool) take(pod *corev1.Pod) (key string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, ok := p.members[client.ObjectKeyFromObject(pod)]
	if !ok || one.uid != pod.UID || one.taken {
		return "", false
	}
	one.taken = true
	p.members[client.ObjectKeyFromObject(pod)] = one
	return one.key, true
}

func (p *pool) remove(pod client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(pod)
}

func (p *pool) drop(pod client.ObjectKey) {
	if _, ok := p.members[pod]; !ok {
		return
	}
	delete(p.members, pod)
	if p.spaces[pod.Namespace]--; p.spaces[pod.Namespace] == 0 {
		delete(p.spaces, pod.Namespace)
	}
}

// of returns the membership of a pod.
func (p *pool) of(pod *corev1.Pod) membership {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, ok := p.members[client.ObjectKeyFromObject(pod)]
	switch {
	case !ok || one.uid != pod.UID && one.uid != "":
		return foreign
	case one.taken:
		return taken
	}
	return waits
}

// any reports whether stand-ins wait in a namespace.
func (p *pool) any(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spaces[namespace] > 0
}

// compare forgets the members that are gone or serve, and counts those that the cache does not show yet.
func (p *pool) compare(namespace string, pods []corev1.Pod, now time.Time) (unseen map[v1alpha2.Runtime]int) {
	shown := map[string]bool{}
	for i := range pods {
		shown[pods[i].Name] = pods[i].DeletionTimestamp.IsZero() && pods[i].Labels[v1alpha2.LabelStandIn] == v1alpha2.StandInWaits
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	unseen = map[v1alpha2.Runtime]int{}
	for pod, one := range p.members {
		waits, found := shown[pod.Name]
		switch {
		case pod.Namespace != namespace:
		case waits:
			one.seen = true
			p.members[pod] = one
		case found || one.seen || now.Sub(one.since) > appears:
			p.drop(pod)
		default:
			unseen[one.runtime]++
		}
	}
	return unseen
}
