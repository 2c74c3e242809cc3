package entrance

import (
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// proxies are the networks whose word counts.
type proxies []netip.Prefix

func (p proxies) trust(address netip.Addr) bool {
	address = address.WithZone("").Unmap()
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// keyOf returns whose share a connection counts for. A proxy stands for many clients.
func (p proxies) keyOf(address netip.Addr) httplimit.Key {
	if p.trust(address) {
		return httplimit.Key{Name: address.WithZone("").Unmap().String(), Unshared: true}
	}
	return forward.KeyOf(address)
}

// clientOf returns whose share a request of a trusted proxy counts for: that of the last address which no trusted proxy has. One that
// the proxy does not tell counts for none.
func (p proxies) clientOf(header http.Header, proxy httplimit.Key) httplimit.Key {
	for _, line := range slices.Backward(header["X-Forwarded-For"]) {
		for rest, last := line, ""; rest != ""; {
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, last = rest[:comma], rest[comma+1:]
			} else {
				rest, last = "", rest
			}
			address, err := netip.ParseAddr(strings.TrimSpace(last))
			if err != nil {
				return proxy
			}
			if !p.trust(address) {
				return forward.KeyOf(address)
			}
		}
	}
	return proxy
}

// request is one of a client, who may lose its place.
type request struct {
	httplimit.Exchange
	httplimit.Place

	caller     forward.Caller
	from       *conn
	http1      bool
	controller *http.ResponseController
	evicted    atomic.Bool

	mu    sync.Mutex
	ended bool
	until time.Time // by which more of the body has to be there
}

var past = time.Unix(1, 0)

// Evict implements pace.Client. What is being read of the body, or written of the answer, fails.
func (r *request) Evict() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.evicted.Swap(true) {
		return
	}
	switch {
	case !r.Writes():
		_ = r.controller.SetReadDeadline(past)
	case r.http1:
		_ = r.from.Close()
	default:
		_ = r.controller.SetWriteDeadline(past)
	}
}

// end is called when the handler has returned.
func (r *request) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	if !r.http1 {
		r.from.remove(r)
	}
	r.Leave()
}

// setReadDeadline sets by when more of the body has to be there; the zero time: never.
func (r *request) setReadDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.evicted.Load() {
		return os.ErrDeadlineExceeded
	}
	r.until = t
	return r.controller.SetReadDeadline(t)
}

// extend puts the deadline off rather than at each read, but shortens it at once.
func (r *request) extend(t time.Time, step time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.evicted.Load():
		return os.ErrDeadlineExceeded
	case !r.until.IsZero() && !t.Before(r.until) && t.Sub(r.until) <= step:
		return nil
	}
	r.until = t
	return r.controller.SetReadDeadline(t)
}
