package watch

import (
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

const (
	// outsiderPatience is how long an address may be no pod's: slices often name a pod before the pod itself is read.
	outsiderPatience = 10 * time.Second
	// outsiderPause is between two lines about a Service.
	outsiderPause = 10 * time.Minute
)

// outsiders logs that a Service has addresses that no pod of its namespace has, once while it does.
type outsiders struct {
	log logr.Logger

	mu    sync.Mutex
	first netip.Addr
	count int
	timer *time.Timer // while there are some
	quiet time.Time   // when the next line may come
}

// read calls a reading of the addresses with isPod, and notes of which isPod says no.
func (o *outsiders) read(isPod func(netip.Addr) bool, reading func(isPod func(netip.Addr) bool) error) error {
	var first netip.Addr
	count := 0
	err := reading(func(address netip.Addr) bool {
		if isPod(address) {
			return true
		}
		if count == 0 {
			first = address
		}
		count++
		return false
	})
	if err == nil {
		o.note(first, count)
	}
	return err
}

func (o *outsiders) note(first netip.Addr, count int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.first, o.count = first, count
	switch {
	case count == 0 && o.timer != nil:
		o.timer.Stop()
		o.timer = nil
	case count > 0 && o.timer == nil:
		o.timer = time.AfterFunc(max(outsiderPatience, time.Until(o.quiet)), o.report)
	}
}

func (o *outsiders) report() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count == 0 {
		return
	}
	o.quiet = time.Now().Add(outsiderPause)
	o.log.Info("addresses of a Service are no pods' of its namespace: nothing is sent to them", "address", o.first.String(), "addresses", o.count)
}

// stop is called when the Service is followed no more.
func (o *outsiders) stop() { o.note(netip.Addr{}, 0) }
