package httplimit

import (
	"cmp"
	"iter"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/fair"
)

const (
	// evictedPart is the divisor of the places that are vacated at a time, so that the search is not repeated for each
	// further client.
	evictedPart = 64
	// searchAgain is the pause after a search that found every client in time.
	searchAgain = 10 * time.Millisecond
	// mostKinds is the maximum number of kinds of keys.
	mostKinds = 3
)

// Client holds a place, and may be evicted from it.
type Client interface {
	// WaitsSince returns the time since which the server has waited for the client, in nanoseconds of Unix time, or 0
	// while it does not wait.
	WaitsSince(now int64) int64
	// Evict ends the client's activity. It may be called twice, and after the place was vacated.
	Evict()
}

// Key identifies the share that a client uses.
type Key struct {
	Name string
	// Unshared exempts keys that stand for many clients, such as proxies.
	Unshared bool
}

// ipv6Network is the length of the IPv6 prefix that a provider assigns to one customer.
const ipv6Network = 64

// KeyOf returns the key of an address, in IPv6 the key of its network.
func KeyOf(address netip.Addr) Key {
	address = address.WithZone("").Unmap()
	if address.Is6() {
		if network, err := address.Prefix(ipv6Network); err == nil {
			return Key{Name: network.String()}
		}
	}
	return Key{Name: address.String()}
}

// KeyOfPort returns the key of an address with a port, as in http.Request.
func KeyOfPort(address string) Key {
	if found, err := netip.ParseAddrPort(address); err == nil {
		return KeyOf(found.Addr())
	}
	return Key{Name: address}
}

// KeyOfConn returns the key of the remote address.
func KeyOfConn(c net.Conn) Key { return KeyOfPort(c.RemoteAddr().String()) }

// Places are the places that a server has for clients: connections, or requests. It is safe for concurrent use.
//
// A client counts for a key of each kind, such as its address and the namespace that it requests. When a key has used
// its share, its next client evicts the client of the same key for which the server has waited longest. When all places
// are taken, it evicts the one for which the server has waited longest, at the first key with most of them. So a client
// that sends and reads promptly is served beside any number of others, even with the same address.
type Places struct {
	total int
	now   func() time.Time
	kinds []kind

	mu   sync.Mutex
	held int
	full barren
}

// kind is one kind of keys.
type kind struct {
	shares *fair.Pool
	keys   map[string]*holder
}

// holder is a key with its places.
type holder struct {
	places []*Place
	barren barren
}

// barren is the time of the last search without a result.
type barren time.Time

// Place is the place of one client. The zero Place is vacant.
type Place struct {
	of     *Places
	client Client
	keys   [mostKinds]Key
	index  [mostKinds]int  // among the places of the key
	units  [mostKinds]bool // in use, of the key's share
	held   bool
}

// NewPlaces returns the given number of places. perKey has the share of a key for each kind; 0: no more than it leaves
// free.
func NewPlaces(total int, perKey ...int) *Places {
	p := &Places{total: total, now: time.Now}
	for _, most := range perKey {
		p.kinds = append(p.kinds, kind{fair.NewPool(fair.Limits{Total: int64(total), PerKey: int64(most)}), map[string]*holder{}})
	}
	return p
}

// Held returns the number of places in use.
func (p *Places) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// Take takes a place for a client with a key of each kind. It reports whether it succeeded, and how many other clients
// were evicted.
func (p *Places) Take(place *Place, client Client, keys ...Key) (ok bool, evicted int) {
	p.mu.Lock()
	place.of, place.client = p, client
	copy(place.keys[:], keys)
	gone, ok := p.enter(place)
	p.mu.Unlock()
	for _, each := range gone {
		each.Evict()
	}
	return ok, len(gone)
}

// Leave vacates a place. Further calls have no effect.
func (l *Place) Leave() {
	if l.of == nil {
		return
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.leave(l)
}

// enter is called with the lock held, as are all methods below.
func (p *Places) enter(place *Place) (gone []Client, ok bool) {
	for i := range p.kinds {
		key := place.keys[i]
		place.units[i] = !key.Unshared && p.kinds[i].shares.TryAcquire(key.Name, 1)
		if place.units[i] || key.Unshared {
			continue
		}
		more, vacated := p.makeRoom(place, i)
		gone = append(gone, more...)
		if !vacated {
			p.release(place)
			return gone, false
		}
	}
	if p.held >= p.total {
		more := p.vacateAny()
		if gone = append(gone, more...); len(more) == 0 {
			p.release(place)
			return gone, false
		}
	}
	place.held = true
	p.held++
	for i := range p.kinds {
		p.kinds[i].add(place, i)
	}
	return gone, true
}

// makeRoom frees a unit by evicting a client of the same key, or of the key with most places if its own has none yet.
func (p *Places) makeRoom(place *Place, i int) (gone []Client, ok bool) {
	key := place.keys[i].Name
	if own := p.kinds[i].keys[key]; own != nil && p.kinds[i].shares.Held(key) > 0 {
		slow := p.slowest(&own.barren, func(yield func(*Place, string) bool) {
			for _, each := range own.places {
				if each.units[i] && !yield(each, key) {
					return
				}
			}
		})
		if len(slow) == 0 {
			return nil, false
		}
		slow[0].place.units[i], place.units[i] = false, true
		return p.vacate(slow), true
	}
	gone = p.vacateAny()
	place.units[i] = p.kinds[i].shares.TryAcquire(key, 1)
	return gone, place.units[i]
}

func (p *Places) vacateAny() []Client {
	if len(p.kinds) == 0 {
		return nil
	}
	return p.vacate(p.slowest(&p.full, func(yield func(*Place, string) bool) {
		for name, each := range p.kinds[0].keys {
			for _, place := range each.places {
				if !yield(place, name) {
					return
				}
			}
		}
	}))
}

// slow is a place whose client the server waits for.
type slow struct {
	place *Place
	since int64
}

// slowest returns the clients that the server has waited for longest, of the key with most of them.
func (p *Places) slowest(last *barren, all iter.Seq2[*Place, string]) []slow {
	now := p.now()
	if now.Sub(time.Time(*last)) < searchAgain {
		return nil
	}
	byKey := map[string][]slow{}
	var most []slow
	for each, key := range all {
		since := each.client.WaitsSince(now.UnixNano())
		if since == 0 {
			continue
		}
		byKey[key] = append(byKey[key], slow{each, since})
		if len(byKey[key]) > len(most) {
			most = byKey[key]
		}
	}
	if len(most) == 0 {
		*last = barren(now)
	}
	slices.SortFunc(most, func(a, b slow) int { return cmp.Compare(a.since, b.since) })
	return most[:min(len(most), max(1, p.total/evictedPart))]
}

func (p *Places) vacate(all []slow) []Client {
	gone := make([]Client, len(all))
	for i, each := range all {
		gone[i] = each.place.client
		p.leave(each.place)
	}
	return gone
}

func (p *Places) leave(place *Place) {
	if !place.held {
		return
	}
	place.held = false
	p.held--
	for i := range p.kinds {
		p.kinds[i].remove(place, i)
	}
	p.release(place)
}

// release returns the units of a place to the shares.
func (p *Places) release(place *Place) {
	for i := range p.kinds {
		if place.units[i] {
			place.units[i] = false
			p.kinds[i].shares.Release(place.keys[i].Name, 1)
		}
	}
}

func (k *kind) add(place *Place, i int) {
	name := place.keys[i].Name
	own := k.keys[name]
	if own == nil {
		own = &holder{}
		k.keys[name] = own
	}
	place.index[i] = len(own.places)
	own.places = append(own.places, place)
}

func (k *kind) remove(place *Place, i int) {
	name := place.keys[i].Name
	own, last := k.keys[name], len(k.keys[name].places)-1
	moved := own.places[last]
	own.places[place.index[i]], moved.index[i] = moved, place.index[i]
	own.places[last] = nil
	if own.places = own.places[:last]; last == 0 {
		delete(k.keys, name)
	}
}
