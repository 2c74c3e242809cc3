package chain

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Extension of a stored event is its place in its chain. Replicas write it, and no publisher.
const Extension = "rousechain"

const tracestate = "tracestate"

// ErrExhausted means that a chain has as many events as one may cause.
var ErrExhausted = errors.New("one event caused too many others")

// Chains counts the events of all chains, and signs the passes of their deliveries.
type Chains struct {
	key    Key
	budget budget
}

// New returns Chains that may have so many events in the name of each namespace. The zero Key is a random one.
func New(key Key, limit int) *Chains {
	if key.signers == nil {
		key = RandomKey()
	}
	return &Chains{key: key, budget: budget{limit: uint32(min(limit, math.MaxUint32)), namespaces: map[id]*counts{}}}
}

// Shown returns the pass of a request, nil if it has none that counts.
func (c *Chains) Shown(header http.Header) *Pass {
	states := header["Tracestate"]
	if len(states) == 0 {
		return nil
	}
	if p, ok := c.key.read(strings.Join(states, ",")); ok {
		return &p
	}
	return nil
}

// Admit makes a published event the next in the chain of a pass, and the first of a chain of its own without one. It returns ErrExhausted when the chain may
// have no more. What the event itself says of a chain is dropped, except for the cause that the pass confirms.
func (c *Chains) Admit(p *Pass, ev *cloudevent.Event) error {
	cause := ev.Extension(dispatch.ExtensionCause)
	if cause != "" && (p == nil || idOf(cause) != p.event) {
		ev.DeleteExtension(dispatch.ExtensionCause)
	}
	if state := ev.Extension(tracestate); strings.Contains(state, member) {
		_, others := split(state)
		setOrDelete(ev, tracestate, others)
	}
	if p == nil {
		ev.DeleteExtension(dispatch.ExtensionHops)
		ev.DeleteExtension(Extension)
		return nil
	}
	ev.SetExtension(dispatch.ExtensionHops, strconv.Itoa(p.hops+1))
	return c.extend(&p.place, ev)
}

func setOrDelete(ev *cloudevent.Event, name, value string) {
	if value == "" {
		ev.DeleteExtension(name)
	} else {
		ev.SetExtension(name, value)
	}
}

// extend writes the place of the next event behind p.
func (c *Chains) extend(p *place, ev *cloudevent.Event) error {
	caused := c.budget.caused(p)
	if caused >= c.budget.limit {
		return fmt.Errorf("%w: the first event of its chain has caused %d in this namespace, as many as it may", ErrExhausted, caused)
	}
	next := *p
	next.caused = caused + 1
	var raw [placeSize]byte
	ev.SetExtension(Extension, hex.EncodeToString(next.append(raw[:0])))
	return nil
}

// Count is called when events that Admit has let in are stored. p may be nil.
func (c *Chains) Count(p *Pass, events int) {
	if p != nil {
		c.budget.count(&p.place, events)
	}
}

// Of returns the chains as those who deliver to a namespace need them.
func (c *Chains) Of(namespace string) Deliveries {
	return Deliveries{chains: c, namespace: idOf(namespace)}
}

// Deliveries continues chains by what is delivered to one namespace. It implements dispatch.Chain.
type Deliveries struct {
	chains    *Chains
	namespace id
}

// Carry implements dispatch.Chain. What has no trace is not given a pass: it would go no further than to the sink.
func (d Deliveries) Carry(stored time.Time, ev *cloudevent.Event) {
	if ev.Extension("traceparent") == "" {
		return
	}
	p := d.pass(stored, ev)
	_, others := split(ev.Extension(tracestate))
	var buffer [128]byte
	text := d.chains.key.appendTo(buffer[:0], &p)
	if others != "" {
		text = append(append(text, ','), others...)
	}
	ev.SetExtension(tracestate, string(text))
}

// Extend implements dispatch.Chain.
func (d Deliveries) Extend(stored time.Time, cause, reply *cloudevent.Event) bool {
	p := d.pass(stored, cause)
	return d.chains.extend(&p.place, reply) == nil
}

// Count implements dispatch.Chain.
func (d Deliveries) Count(stored time.Time, cause *cloudevent.Event) {
	p := d.pass(stored, cause)
	d.chains.budget.count(&p.place, 1)
}

// pass is that of a delivery. What another namespace has caused does not count for this one.
func (d Deliveries) pass(stored time.Time, ev *cloudevent.Event) Pass {
	event := idOf(ev.ID)
	p := Pass{place: placeOf(ev, event, stored), hops: dispatch.Hops(ev), event: event}
	if p.namespace != d.namespace {
		p.namespace, p.caused = d.namespace, 0
	}
	return p
}
