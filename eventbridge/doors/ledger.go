package doors

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// Delivery is one that has become an event.
type Delivery struct {
	Key  [16]byte // hash of what identifies it
	Body [8]byte  // hash of its body
}

// Store keeps deliveries, and connects replicas and the controller.
type Store interface {
	// StoreDeliveries stores a page of deliveries of a namespace, at most pageSize.
	StoreDeliveries(ctx context.Context, namespace string, page []Delivery) error
	// FollowDeliveries calls apply with all pages, and with further ones as they are stored, one at a time, until ctx ends; and
	// known whenever all that are stored have been applied.
	FollowDeliveries(ctx context.Context, apply func(namespace string, stored time.Time, page []Delivery), known func()) error
	// ReportDoors announces what became of requests.
	ReportDoors(id string, data []byte) error
}

const (
	// DeliveriesKept is how long a delivery is known.
	DeliveriesKept = 72 * time.Hour

	// pageSize bounds a page, and flushInterval how long a delivery is known to this replica alone. JetStream recognises events by
	// their ids for much longer than that.
	pageSize      = 256
	flushInterval = 500 * time.Millisecond
	flushTimeout  = 10 * time.Second
	// maxOfNamespace bounds the deliveries of a namespace, of which the oldest go first, and maxDeliveries those of all, some 60
	// bytes each: then the oldest of the namespace with most of them go.
	maxOfNamespace = 65_536
	maxDeliveries  = 262_144
	// joinedFor is the time whose deliveries are forgotten together.
	joinedFor = 10 * time.Second
)

// ledger knows the deliveries that have become events, by any replica.
type ledger struct {
	store Store
	log   logr.Logger

	mu      sync.Mutex
	ready   bool
	bodies  map[[16]byte][8]byte
	spaces  map[string]*space
	pending map[string][]Delivery // by namespace
	full    chan struct{}         // signals a full page
}

// space are the deliveries of a namespace, the oldest first.
type space struct {
	pages []page
	count int
}

type page struct {
	at   time.Time
	keys [][16]byte
}

func newLedger(store Store, log logr.Logger) *ledger {
	return &ledger{
		store: store, log: log, bodies: map[[16]byte][8]byte{}, spaces: map[string]*space{}, pending: map[string][]Delivery{},
		full: make(chan struct{}, 1),
	}
}

// deliveryOf identifies a delivery to a Door by its id, or by its body alone if that is empty.
func deliveryOf(door types.UID, id string, body []byte) Delivery {
	sum := sha256.Sum256(body)
	identity := sha256.New()
	for _, part := range []string{string(door), id} {
		_, _ = identity.Write([]byte(part))
		_, _ = identity.Write([]byte{0})
	}
	if id == "" {
		_, _ = identity.Write(sum[:])
	}
	return Delivery{Key: [16]byte(identity.Sum(nil)), Body: [8]byte(sum[:])}
}

// find reports whether a delivery is known, and whether it had another body then.
func (l *ledger) find(d Delivery) (known, differs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	body, known := l.bodies[d.Key]
	return known, known && body != d.Body
}

func (l *ledger) isReady() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready
}

// add remembers deliveries of a namespace, and has them stored.
func (l *ledger) add(namespace string, at time.Time, all ...Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(namespace, at, all)
	if l.pending[namespace] = append(l.pending[namespace], all...); len(l.pending[namespace]) >= pageSize {
		select {
		case l.full <- struct{}{}:
		default:
		}
	}
}

// remember makes room first. The caller holds the mutex.
func (l *ledger) remember(namespace string, at time.Time, all []Delivery) {
	of := l.spaces[namespace]
	if of == nil {
		of = &space{}
		l.spaces[namespace] = of
	}
	keys := make([][16]byte, 0, len(all))
	for _, each := range all {
		if _, known := l.bodies[each.Key]; !known {
			keys = append(keys, each.Key)
		}
		l.bodies[each.Key] = each.Body
	}
	if last := len(of.pages) - 1; last >= 0 && at.Sub(of.pages[last].at) < joinedFor {
		of.pages[last].keys = append(of.pages[last].keys, keys...)
	} else if len(keys) > 0 {
		of.pages = append(of.pages, page{at, keys})
	}
	of.count += len(keys)
	for len(of.pages) > 1 && (of.count > maxOfNamespace || at.Sub(of.pages[0].at) > DeliveriesKept) {
		l.drop(of)
	}
	for len(l.bodies) > maxDeliveries {
		l.drop(l.largest())
	}
}

func (l *ledger) largest() *space {
	var found *space
	for _, each := range l.spaces {
		if found == nil || each.count > found.count {
			found = each
		}
	}
	return found
}

// drop forgets the oldest page of a namespace.
func (l *ledger) drop(of *space) {
	for _, key := range of.pages[0].keys {
		delete(l.bodies, key)
	}
	of.count -= len(of.pages[0].keys)
	of.pages = of.pages[1:]
}

// follow takes over what is stored.
func (l *ledger) follow(ctx context.Context) error {
	return l.store.FollowDeliveries(ctx, func(namespace string, stored time.Time, all []Delivery) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.remember(namespace, stored, all)
	}, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ready = true
	})
}

// flushUntil stores what is remembered, until ctx ends, and once more after that.
func (l *ledger) flushUntil(ctx context.Context) {
	ticker := time.NewTicker(flushInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			l.flush(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
		case <-l.full:
		}
		l.flush(ctx)
	}
}

// flush stores what is pending. What cannot be stored stays pending; events are recognised by their ids meanwhile.
func (l *ledger) flush(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, flushTimeout)
	defer stop()
	l.mu.Lock()
	pending := l.pending
	l.pending = map[string][]Delivery{}
	l.mu.Unlock()
	for namespace, all := range pending {
		for len(all) > 0 {
			next := all[:min(len(all), pageSize)]
			if err := l.store.StoreDeliveries(ctx, namespace, next); err != nil {
				l.log.V(1).Info("cannot store the deliveries of Doors yet", "namespace", namespace, "reason", err.Error())
				break
			}
			all = all[len(next):]
		}
		if len(all) > 0 {
			l.mu.Lock()
			l.pending[namespace] = append(all, l.pending[namespace]...)[:min(len(all)+len(l.pending[namespace]), maxOfNamespace)]
			l.mu.Unlock()
		}
	}
}
