package chain

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// id is the beginning of a hash: of a namespace, of an event's id, or of the first event of a chain.
type id [8]byte

func idOf(text string) (short id) {
	var buffer [128]byte
	sum := sha256.Sum256(append(buffer[:0], text...))
	copy(short[:], sum[:])
	return short
}

// place is where an event is in its chain, as it is stored with it.
type place struct {
	root      id     // the first event
	namespace id     // in whose name the event was published
	caused    uint32 // events of the chain that this namespace had published by then, as far as was known
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

// placeOf reads the place of a stored event. One that has none is the first of its chain, by when it was stored: publishers choose
// everything else of it.
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

// Pass says of a delivery what is published because of it.
type Pass struct {
	place
	hops  int // before the event that is delivered
	event id  // the id of that event
}

// Key signs passes. All replicas have the same one, or take none of each other's.
type Key struct{ signers *sync.Pool }

// signer is kept, as a new one takes as long as some signatures.
type signer struct {
	mac  hash.Hash
	text [bodySize + sha256.Size]byte
}

// NewKey returns the key that a secret makes.
func NewKey(secret []byte) Key {
	return Key{&sync.Pool{New: func() any { return &signer{mac: hmac.New(sha256.New, secret)} }}}
}

// leastSecret is what a secret has at least. Sinks see what it signs, and could guess a shorter one.
const leastSecret = 16

// ReadKey reads the secret of a key from a file. Without a file the key is the zero Key.
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

// RandomKey returns a key of this process alone.
func RandomKey() Key {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // it never fails
	return NewKey(secret)
}

// member of tracestate that is the pass. Others are other vendors'.
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

// read returns the pass that a tracestate has, if one of its key signed it.
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

// split takes the pass out of a tracestate, and returns what others have there.
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
