package endpoint

import (
	"net"
	"time"
)

// ProbeTimeout is the timeout that a Dialer of Options should have. A connect that gets no answer is given up soon: the packet
// may have come before the pod's network was complete, and TCP repeats it only after a second.
const ProbeTimeout = 250 * time.Millisecond

// Options say what a Pool keeps for its addresses and how it dials them.
type Options[T any] struct {
	// Value makes what is kept for an address, when the address becomes known. Nil keeps the zero value.
	Value func(address string) T
	// OnGate is called when the gate has opened or closed; it may be nil. The pool is locked meanwhile, so it must not call it.
	OnGate func(Change)
	// OnUsable is called with the number of addresses that can be picked, when that may have changed; it may be nil. The pool is
	// locked meanwhile, so it must not call it.
	OnUsable func(int)
	// AwaitReady leaves addresses of starting Functions alone until their readiness probes pass, as a Service does.
	AwaitReady bool
	// DialInterval parts two connects to an address that is not up yet.
	DialInterval time.Duration
	// Dialer connects to such an address. It may be shared.
	Dialer *net.Dialer
}

// Change is one of a gate.
type Change struct {
	// Open is true when the gate has opened.
	Open bool
	// Address is the one that opened the gate, or the last that could be used.
	Address string
	// Waited is for how long the address that opened the gate has been known.
	Waited time.Duration
	// Lasted is for how long the gate was as it was before.
	Lasted time.Duration
}
