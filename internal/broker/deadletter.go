package broker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
)

// Headers of a dead letter, in addition to those of its event and of a retry.
const (
	HeaderDeadLetterSubscription = "Rouse-Subscription"
	HeaderDeadLetterReason       = "Rouse-Reason" // a code of package failure
	// HeaderDeadLetterMessage is the reason as a sentence. A dead letter without it was
	// stored when the sentence was the reason.
	HeaderDeadLetterMessage  = "Rouse-Message"
	HeaderDeadLetterStatus   = "Rouse-Status"
	HeaderDeadLetterExcerpt  = "Rouse-Excerpt"
	HeaderDeadLetterSequence = "Rouse-Sequence" // in the stream that it came from
	HeaderDeadLetterTime     = "Rouse-Time"     // when it was given up
	// HeaderDeadLetterSpliced is how many bytes of the body are extensions that
	// the event did not have.
	HeaderDeadLetterSpliced = "Rouse-Spliced"

	maxExcerpt = 1024
	// natsHeaders belong to the stream that an event came from.
	natsHeaders = "Nats-"
)

// DeadLetter records why an event is given up.
type DeadLetter struct {
	Subscription types.NamespacedName
	Reason       failure.Reason
	Attempts     int
	Status       int    // the sink's last HTTP status, 0 without an answer
	BodyExcerpt  string // the beginning of the sink's last answer
}

// AddDeadLetter stores the message as a dead letter and returns after the stream
// has confirmed it. A repeat for the same message is stored once. The message
// itself still has to be rejected. When the stream is full, it drops the oldest
// dead letters of the namespace that holds most of it.
func (c *Conn) AddDeadLetter(ctx context.Context, d DeadLetter, m *Message) error {
	if !c.Connected() {
		return fmt.Errorf("add dead letter: %w", ErrNotConnected)
	}
	deadLetter := d.message(m, time.Now())
	if int64(deadLetter.Size()) > c.nc.MaxPayload() {
		// The headers hold the same, and fit: see deadLetterReserve.
		deadLetter.Data = m.raw.Data
		deadLetter.Header.Del(HeaderDeadLetterSpliced)
	}
	if err := c.storeDeadLetter(ctx, deadLetter); err != nil {
		return fmt.Errorf("add dead letter: %w", err)
	}
	return nil
}

// AddDeadLetter is Conn.AddDeadLetter for the Subscription that the message was delivered for.
func (m *Message) AddDeadLetter(ctx context.Context, d DeadLetter) error {
	d.Subscription = m.source.subscription
	return m.conn.AddDeadLetter(ctx, d, m)
}

func (d DeadLetter) message(m *Message, now time.Time) *nats.Msg {
	d.Reason = failure.Reason(singleLine(string(d.Reason), maxReason))
	d.BodyExcerpt = singleLine(d.BodyExcerpt, maxExcerpt)
	deadLetter := &nats.Msg{Subject: routing.DeadLetterSubject(d.Subscription), Header: d.header(m, now), Data: m.raw.Data}
	if spliced := spliceExtensions(m.raw.Data, d.extensions(now)); spliced != nil {
		deadLetter.Data = spliced
		deadLetter.Header.Set(HeaderDeadLetterSpliced, strconv.Itoa(len(spliced)-len(m.raw.Data)))
	}
	return deadLetter
}

func (d DeadLetter) header(m *Message, now time.Time) nats.Header {
	header := m.carriedHeader()
	header.Del(headerUID) // a redrive goes to the Subscription that has the name then
	header.Set(HeaderDeadLetterSubscription, d.Subscription.String())
	header.Set(HeaderDeadLetterReason, string(d.Reason))
	header.Set(HeaderDeadLetterMessage, d.Reason.Message())
	header.Set(HeaderAttempts, strconv.Itoa(d.Attempts))
	header.Set(HeaderDeadLetterStatus, strconv.Itoa(d.Status))
	header.Set(HeaderDeadLetterExcerpt, d.BodyExcerpt)
	header.Set(HeaderDeadLetterSequence, strconv.FormatUint(m.Sequence(), 10))
	header.Set(HeaderDeadLetterTime, formatTime(now))
	header.Set(jetstream.MsgIDHeader, m.identity())
	return header
}

// DeadLetters counts what is kept for a Subscription.
func (c *Conn) DeadLetters(ctx context.Context, subscription types.NamespacedName) (uint64, error) {
	counts, err := c.countDeadLetters(ctx, routing.DeadLetterSubject(subscription))
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return counts[subscription], nil
}

// DeadLetterCounts counts what is kept for each Subscription that has dead
// letters, in one request.
func (c *Conn) DeadLetterCounts(ctx context.Context) (map[types.NamespacedName]uint64, error) {
	counts, err := c.countDeadLetters(ctx, DeadLetterSelection{}.filter())
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	return counts, nil
}

func (c *Conn) countDeadLetters(ctx context.Context, filter string) (map[types.NamespacedName]uint64, error) {
	return c.countBySubscription(ctx, DeadLetterStream, routing.DeadLetterPrefix, filter)
}

// deadLetterSubscription reads a subject that routing.DeadLetterSubject made.
func deadLetterSubscription(subject string) types.NamespacedName {
	return subscriptionOf(routing.DeadLetterPrefix, subject)
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Extensions of a dead letter, in addition to those of its event.
const (
	ExtensionDeadLetterReason       = "rousereason"
	ExtensionDeadLetterMessage      = "rousemessage"
	ExtensionDeadLetterAttempts     = "rouseattempts"
	ExtensionDeadLetterStatus       = "rousestatus"
	ExtensionDeadLetterExcerpt      = "rouseexcerpt"
	ExtensionDeadLetterSubscription = "rousesubscription"
	ExtensionDeadLetterTime         = "rousetime"
)

// extension is one member of a structured event, its value written as JSON.
type extension struct {
	name  string
	value []byte
}

func (d DeadLetter) extensions(now time.Time) []extension {
	extensions := []extension{
		{ExtensionDeadLetterReason, quote(string(d.Reason))},
		{ExtensionDeadLetterMessage, quote(d.Reason.Message())},
		{ExtensionDeadLetterAttempts, strconv.AppendInt(nil, int64(d.Attempts), 10)},
		{ExtensionDeadLetterSubscription, quote(d.Subscription.String())},
		{ExtensionDeadLetterTime, quote(formatTime(now))},
	}
	if d.Status != 0 {
		extensions = append(extensions, extension{ExtensionDeadLetterStatus, strconv.AppendInt(nil, int64(d.Status), 10)})
	}
	if d.BodyExcerpt != "" {
		extensions = append(extensions, extension{ExtensionDeadLetterExcerpt, quote(d.BodyExcerpt)})
	}
	return extensions
}

// spliceExtensions puts extensions at the start of a structured event and leaves
// every other byte as it is. A name that the event has already stays the event's:
// a JSON object cannot have it twice. It returns nil when the body is no
// structured event.
func spliceExtensions(body []byte, extensions []extension) []byte {
	members, ok := structuredMembers(body)
	if !ok {
		return nil
	}
	at := bytes.IndexByte(body, '{') + 1
	spliced := make([]byte, at, len(body)+2*maxExcerpt)
	copy(spliced, body)
	for _, e := range extensions {
		if _, has := members[e.name]; has {
			continue
		}
		spliced = append(append(append(append(spliced, '"'), e.name...), `":`...), e.value...)
		spliced = append(spliced, ',') // a structured event has at least its specversion
	}
	return append(spliced, body[at:]...)
}

// unspliced is the body of a dead letter as the event's publisher wrote it.
func unspliced(header nats.Header, body []byte) []byte {
	size, err := strconv.Atoi(header.Get(HeaderDeadLetterSpliced))
	at := bytes.IndexByte(body, '{') + 1
	if err != nil || at == 0 || size < 0 || size > len(body)-at {
		return body
	}
	return append(body[:at:at], body[at+size:]...)
}

func structuredMembers(body []byte) (map[string]json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members["specversion"] == nil {
		return nil, false
	}
	return members, true
}

// printable is a text without what no extension may have.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}

// quote writes a string of JSON.
func quote(text string) []byte {
	text = printable(text)
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string in memory can always be written
	return bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))
}

// TypeUndecodable is the type of the event that stands for a dead letter whose message was
// no CloudEvent. Its data are the bytes of that message.
const TypeUndecodable = "run.rouse.deadletter.undecodable.v1"

// Event is the event as its publisher wrote it, with the extensions that describe why it is
// a dead letter. They override its own of the same names, which may be those of an
// earlier dead letter. Every dead letter has an event.
func (m *DeadLetterMessage) Event() (cloudevent.Event, error) {
	ev, err := m.Message.Event()
	if err != nil {
		ev = m.undecodable()
	}
	explain(&ev, m.raw.Header)
	return ev, nil
}

func (m *DeadLetterMessage) undecodable() cloudevent.Event {
	subscription := deadLetterSubscription(m.raw.Subject)
	return cloudevent.Event{
		ID:              DeadLetterStream + "/" + strconv.FormatUint(m.Sequence(), 10),
		Source:          "/namespaces/" + subscription.Namespace + "/subscriptions/" + subscription.Name,
		Type:            TypeUndecodable,
		DataContentType: "application/octet-stream",
		Data:            m.raw.Data,
	}
}

// explain takes the extensions from the headers, which a dead letter has even if its body
// could not hold them.
func explain(ev *cloudevent.Event, header nats.Header) {
	if reason, message, ok := reasonOf(header); ok {
		ev.SetExtension(ExtensionDeadLetterReason, string(reason))
		ev.SetExtension(ExtensionDeadLetterMessage, message)
	}
	for extension, name := range map[string]string{
		ExtensionDeadLetterAttempts:     HeaderAttempts,
		ExtensionDeadLetterStatus:       HeaderDeadLetterStatus,
		ExtensionDeadLetterExcerpt:      HeaderDeadLetterExcerpt,
		ExtensionDeadLetterSubscription: HeaderDeadLetterSubscription,
		ExtensionDeadLetterTime:         HeaderDeadLetterTime,
	} {
		if _, ok := header[name]; !ok {
			continue // a dead letter of another client
		}
		value := printable(header.Get(name))
		if value == "" || extension == ExtensionDeadLetterStatus && value == "0" { // there was no answer
			ev.DeleteExtension(extension)
			continue
		}
		ev.SetExtension(extension, value)
	}
}

// reasonOf reads why an event is a dead letter, and the sentence for it. Earlier versions stored
// the sentence in place of the code; another client may have stored neither.
func reasonOf(header nats.Header) (reason failure.Reason, message string, ok bool) {
	_, ok = header[HeaderDeadLetterReason]
	text := printable(header.Get(HeaderDeadLetterReason))
	if _, coded := header[HeaderDeadLetterMessage]; coded && text != "" {
		return failure.Reason(text), cmp.Or(printable(header.Get(HeaderDeadLetterMessage)), failure.Unknown.Message()), ok
	}
	reason, message = failure.OfSentence(text)
	return reason, message, ok
}
