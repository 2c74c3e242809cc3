package chain

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Extension is the CloudEvents extension that holds a stored event's position in its chain. Only the bridge writes it.
const Extension = "rousechain"

const tracestate = "tracestate"

// ErrExhausted means that a chain has as many events as one event may cause.
var ErrExhausted = errors.New("one event caused too many others")

// Chains counts the events of all chains, and signs the passes of their deliveries.
type Chains struct {
	key    Key
	caused eventCounts
}

// New returns Chains with a limit of events for each namespace. The zero Key stands for a random one.
func New(key Key, limit int) *Chains {
	if key.signers == nil {
		key = RandomKey()
	}
	return &Chains{key: key, caused: eventCounts{limit: uint32(min(limit, math.MaxUint32)), namespaces: map[id]*counts{}}}
}

// Shown returns the pass of a request, nil without a valid one.
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

// Admit makes a published event the next one in the chain of a pass, and the first one of a new chain without a pass.
// It returns ErrExhausted when the chain is at its limit. It drops what the event itself claims about its chain, except
// for the cause that the pass confirms.
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

// extend writes the position of the event after p.
func (c *Chains) extend(p *place, ev *cloudevent.Event) error {
	caused := c.caused.caused(p)
	if caused >= c.caused.limit {
		return fmt.Errorf("%w: the first event of its chain has caused %d in this namespace, as many as it may", ErrExhausted, caused)
	}
	next := *p
	next.caused = caused + 1
	var raw [placeSize]byte
	ev.SetExtension(Extension, hex.EncodeToString(next.append(raw[:0])))
	return nil
}

// Count counts stored events that Admit let in. p may be nil.
func (c *Chains) Count(p *Pass, events int) {
	if p != nil {
		c.caused.count(&p.place, events)
	}
}

// Of returns the chains for the deliveries to a namespace.
func (c *Chains) Of(namespace string) Deliveries {
	return Deliveries{chains: c, namespace: idOf(namespace)}
}

// Deliveries extends chains by the deliveries to one namespace. It implements dispatch.Chain.
type Deliveries struct {
	chains    *Chains
	namespace id
}

// Carry implements dispatch.Chain. An event without a trace gets no pass, because the pass would go no further than the
// sink.
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
	d.chains.caused.count(&p.place, 1)
}

// pass returns the pass of a delivery. Events that another namespace caused do not count for this one.
func (d Deliveries) pass(stored time.Time, ev *cloudevent.Event) Pass {
	event := idOf(ev.ID)
	p := Pass{place: placeOf(ev, event, stored), hops: dispatch.Hops(ev), event: event}
	if p.namespace != d.namespace {
		p.namespace, p.caused = d.namespace, 0
	}
	return p
}

// id is the beginning of a hash of a namespace, of an event's id, or of the first event of a chain.
type id [8]byte

func idOf(text string) (short id) {
	var buffer [128]byte
	sum := sha256.Sum256(append(buffer[:0], text...))
	copy(short[:], sum[:])
	return short
}

// place is the position of a stored event in its chain.
type place struct {
	root      id     // the first event
	namespace id     // the namespace that published the event
	caused    uint32 // events of the chain that this namespace had published by then, as far as known
}

const (
	placeSize = 2*len(id{}) + 4
	bodySize  = placeSize + 4 + len(id{})
	macSize   = 16
)

func (p place) append(to []byte) []byte {
	to = append(append(to, p.root[:]...), p.namespace[:]...)
	return binary.BigEndian.AppendUint32(to, p.caused)
}

func readPlace(from []byte) (p place) {
	copy(p.root[:], from)
	copy(p.namespace[:], from[len(id{}):])
	p.caused = binary.BigEndian.Uint32(from[2*len(id{}):])
	return p
}

// placeOf reads the position of a stored event. An event without one is the first of its chain, identified by the time
// when it was stored: publishers choose everything else.
func placeOf(ev *cloudevent.Event, event id, stored time.Time) place {
	var digits [2 * placeSize]byte
	if text := ev.Extension(Extension); len(text) == len(digits) {
		copy(digits[:], text)
		if _, err := hex.Decode(digits[:placeSize], digits[:]); err == nil {
			return readPlace(digits[:])
		}
	}
	at := binary.BigEndian.Uint64(event[:]) ^ uint64(stored.UnixNano())
	binary.BigEndian.PutUint64(event[:], at)
	return place{root: event}
}

// Pass links what a sink publishes to the delivery that caused it.
type Pass struct {
	place
	hops  int // before the event that is delivered
	event id  // the id of that event
}

// Key signs passes. Replicas accept each other's passes only if they share a key.
type Key struct{ signers *sync.Pool }

// signer is reused, because creating one costs as much as several signatures.
type signer struct {
	mac  hash.Hash
	text [bodySize + sha256.Size]byte
}

// NewKey derives a key from a secret.
func NewKey(secret []byte) Key {
	return Key{&sync.Pool{New: func() any { return &signer{mac: hmac.New(sha256.New, secret)} }}}
}

// leastSecret is the minimum length of a secret. Sinks see signatures, and could guess a shorter secret.
const leastSecret = 16

// ReadKey reads the secret of a key from a file. An empty path returns the zero Key.
func ReadKey(path string) (Key, error) {
	if path == "" {
		return Key{}, nil
	}
	secret, err := os.ReadFile(path) //nolint:gosec // a path that the operator chose
	if err != nil {
		return Key{}, fmt.Errorf("read --chain-key-file: %w", err)
	}
	if secret = bytes.TrimSpace(secret); len(secret) < leastSecret {
		return Key{}, fmt.Errorf("read --chain-key-file: %s has %d bytes, and needs at least %d", path, len(secret), leastSecret)
	}
	return NewKey(secret), nil
}

// RandomKey returns a key for this process only.
func RandomKey() Key {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // it never fails
	return NewKey(secret)
}

// member is the key of the pass in tracestate.
const member = "rouse="

var encoding = base64.RawURLEncoding

// appendTo writes the pass as a member of tracestate.
func (k Key) appendTo(text []byte, p *Pass) []byte {
	s, _ := k.signers.Get().(*signer)
	defer k.signers.Put(s)
	body := p.append(s.text[:0])
	return encoding.AppendEncode(append(text, member...), s.sign(body)[:bodySize+macSize])
}

func (p *Pass) append(to []byte) []byte {
	to = binary.BigEndian.AppendUint32(p.place.append(to), uint32(p.hops))
	return append(to, p.event[:]...)
}

// sign appends the signature to a body that is the beginning of s.text.
func (s *signer) sign(body []byte) []byte {
	s.mac.Reset()
	_, _ = s.mac.Write(body) // it never fails
	return s.mac.Sum(body)
}

// read returns the pass in a tracestate if it is signed by its key.
func (k Key) read(tracestate string) (Pass, bool) {
	text, _ := split(tracestate)
	if len(text) != encoding.EncodedLen(bodySize+macSize) {
		return Pass{}, false
	}
	shown, err := encoding.DecodeString(text)
	if err != nil {
		return Pass{}, false
	}
	s, _ := k.signers.Get().(*signer)
	defer k.signers.Put(s)
	signed := s.sign(append(s.text[:0], shown[:bodySize]...))
	if !hmac.Equal(signed[:bodySize+macSize], shown) {
		return Pass{}, false
	}
	p := Pass{place: readPlace(shown), hops: int(binary.BigEndian.Uint32(shown[placeSize:]))}
	copy(p.event[:], shown[placeSize+4:])
	return p, true
}

// split removes the pass from a tracestate and returns the other vendors' members.
func split(tracestate string) (pass, others string) {
	if !strings.Contains(tracestate, member) {
		return "", tracestate
	}
	var rest []string
	for part := range strings.SplitSeq(tracestate, ",") {
		part = strings.TrimSpace(part)
		if text, found := strings.CutPrefix(part, member); !found {
			rest = append(rest, part)
		} else if pass == "" {
			pass = text
		}
	}
	return pass, strings.Join(rest, ",")
}

const (
	// rows and columns of a namespace's count-min table, 32 KiB. The size of a chain is its smallest counter.
	rows    = 4
	columns = 1024
	// window is the minimum time for which the count of an idle chain is remembered; at most twice as long. A chain
	// that continues later starts from the count that is stored with the event.
	window = 5 * time.Minute
)

// eventCounts counts the events of chains by namespace.
type eventCounts struct {
	limit uint32

	mu         sync.Mutex
	namespaces map[id]*counts
	swept      time.Time
}

// counts are the counters of a namespace in the current and in the previous window.
type counts struct {
	began           time.Time
	current, before [rows][columns]uint32
}

// caused returns the number of events of a chain that its namespace has published, or more.
func (e *eventCounts) caused(p *place) uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.namespaces[p.namespace]; c != nil {
		c.rotate(time.Now())
		return max(p.caused, c.caused(p.root))
	}
	return p.caused
}

// count adds events to a chain.
func (e *eventCounts) count(p *place, events int) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweep(now)
	c := e.namespaces[p.namespace]
	if c == nil {
		c = &counts{began: now}
		e.namespaces[p.namespace] = c
	}
	c.rotate(now)
	c.raise(p.root, max(p.caused, c.caused(p.root))+uint32(events))
}

// sweep drops namespaces that have published nothing for two windows.
func (e *eventCounts) sweep(now time.Time) {
	if now.Sub(e.swept) < window {
		return
	}
	e.swept = now
	for namespace, c := range e.namespaces {
		if now.Sub(c.began) >= 2*window {
			delete(e.namespaces, namespace)
		}
	}
}

// rotate begins a new window when the current one is over.
func (c *counts) rotate(now time.Time) {
	switch age := now.Sub(c.began); {
	case age < window:
		return
	case age < 2*window:
		c.before = c.current
	default:
		c.before = [rows][columns]uint32{}
	}
	c.current, c.began = [rows][columns]uint32{}, now
}

func (c *counts) caused(root id) uint32 {
	least := uint32(1<<32 - 1)
	for row := range rows {
		column := columnOf(root, row)
		least = min(least, max(c.current[row][column], c.before[row][column]))
	}
	return least
}

// raise sets the counters of a chain to count unless they are higher because of another chain.
func (c *counts) raise(root id, count uint32) {
	for row := range rows {
		counter := &c.current[row][columnOf(root, row)]
		*counter = max(*counter, count)
	}
}

// columnOf uses a different part of the root for each row.
func columnOf(root id, row int) int {
	return int(binary.BigEndian.Uint16(root[2*row:])) % columns
}
