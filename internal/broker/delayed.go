package broker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// DelayedStream holds the events that are published later.
const DelayedStream = "rouse-delayed"

const (
	delayedPrefix = "rouse.later."
	// delayedWindow is how long a repeat is recognised that arrives while the first is being stored. Later ones are found.
	delayedWindow = 2 * time.Minute
	// maxDelayed bounds the number of events that wait, of each of which every bridge remembers when it is due.
	maxDelayed = 200_000
	// headerPublisher is the namespace in whose name a delayed event is published.
	headerPublisher = "Rouse-Publisher"
	// noNamespace stands in subjects for a publisher that is not known. No namespace has this name.
	noNamespace = "-"
)

var (
	// ErrDelayedOtherwise means that the same event waits already, for another time.
	ErrDelayedOtherwise = failure.ErrDelayedOtherwise
	// ErrNoDelayed means that no such event waits: it was published, cancelled, or never there.
	ErrNoDelayed = failure.ErrNoDelayed
)

// Delayed is an event that waits for its time, without its content.
type Delayed struct {
	// ID distinguishes it from all others: a hash of what identifies the event.
	ID string
	// Due is when it is published, in milliseconds.
	Due time.Time
	// Namespace of its publisher, empty where that is not known.
	Namespace string
	// Bytes is about what it takes in the stream, rounded up.
	Bytes uint64
	// Class is that of the size.
	Class string
}

func delayedStream(o StreamOptions) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              DelayedStream,
		Description:       "events that Rouse publishes later",
		Subjects:          []string{delayedPrefix + ">"},
		Retention:         jetstream.LimitsPolicy,
		Storage:           storageType(o.Storage),
		Replicas:          o.Replicas,
		MaxMsgs:           maxDelayed,
		MaxMsgsPerSubject: -1,
		MaxBytes:          o.DelayedMaxBytes,
		Duplicates:        delayedWindow,
		Discard:           jetstream.DiscardNew,
		AllowDirect:       true,
	}
}

// subject is rouse.later.<due>.<size>.<namespace>.<id>, so that a list of the subjects has all but the content.
func (d *Delayed) subject() string {
	return delayedPrefix + strings.Join([]string{strconv.FormatInt(d.Due.UnixMilli(), 10), d.Class, namespaceToken(d.Namespace), d.ID}, ".")
}

func delayedOf(subject string) (Delayed, bool) {
	rest, ok := strings.CutPrefix(subject, delayedPrefix)
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 4 {
		return Delayed{}, false
	}
	due, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return Delayed{}, false
	}
	d := Delayed{ID: parts[3], Due: time.UnixMilli(due), Namespace: parts[2], Bytes: classBytes(parts[1]), Class: parts[1]}
	if d.Namespace == noNamespace {
		d.Namespace = ""
	}
	return d, true
}

// delayedID is what the stored event's duplicates are recognised by.
func delayedID(message *nats.Msg) string { return message.Header.Get(jetstream.MsgIDHeader) }

// Delay stores an event that is to be published later. A repeat with the same time is stored once, one with another time gets
// ErrDelayedOtherwise; that holds for two minutes, and beyond where callers know what waits. The stream knows no shares.
func (p *Publisher) Delay(ctx context.Context, e *cloudevent.Event, due time.Time) (Delayed, error) {
	message, err := encode(e)
	if err == nil {
		err = p.check(message)
	}
	if err != nil {
		return Delayed{}, err
	}
	d := Delayed{ID: delayedID(message), Due: due.Truncate(time.Millisecond), Namespace: e.Publisher}
	d.Class = sizeClass(storedSize(message.Header, message.Data))
	d.Bytes = classBytes(d.Class)
	message.Subject = d.subject()
	message.Header.Set(headerPublisher, e.Publisher)
	message.Header.Set(jetstream.MsgIDHeader, d.ID)
	stored, err := p.conn.js.PublishMsg(ctx, message)
	if err == nil && stored.Duplicate {
		found, err := p.conn.FindDelayed(ctx, d.Namespace, d.ID)
		switch {
		case err == nil && !found.Due.Equal(d.Due):
			return found, ErrDelayedOtherwise
		case !errors.Is(err, ErrNoDelayed):
			return found, err
		}
		message.Header.Set(jetstream.MsgIDHeader, d.ID+rand.Text()) // the first was published or cancelled since
		_, err = p.conn.js.PublishMsg(ctx, message)
		return d, mapError(err)
	}
	return d, mapError(err)
}

// DelayedID returns the ID that an event has while it is delayed.
func DelayedID(e *cloudevent.Event) (string, error) {
	message, err := encode(e)
	if err != nil {
		return "", err
	}
	return delayedID(message), nil
}

// namespaceToken is a namespace as a token of a subject.
func namespaceToken(namespace string) string { return cmp.Or(namespace, noNamespace) }

// DelayedEvents lists the events of a namespace that wait, or of all namespaces, the next one first.
func (c *Conn) DelayedEvents(ctx context.Context, namespace string) ([]Delayed, error) {
	filter := "*.*.*.*"
	if namespace != "" {
		filter = "*.*." + namespace + ".*"
	}
	return c.delayed(ctx, filter)
}

func (c *Conn) delayed(ctx context.Context, filter string) ([]Delayed, error) {
	info, err := c.subjects(ctx, DelayedStream, delayedPrefix+filter)
	if err != nil {
		return nil, fmt.Errorf("list delayed events: %w", err)
	}
	all := make([]Delayed, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		if d, ok := delayedOf(subject); ok {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b Delayed) int {
		if order := a.Due.Compare(b.Due); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all, nil
}

// FindDelayed finds an event of a namespace by its id.
func (c *Conn) FindDelayed(ctx context.Context, namespace, id string) (Delayed, error) {
	found, err := c.delayed(ctx, "*.*."+namespaceToken(namespace)+"."+id)
	if err != nil {
		return Delayed{}, err
	}
	if len(found) == 0 {
		return Delayed{}, ErrNoDelayed
	}
	return found[0], nil
}

// LoadDelayed reads an event that waits.
func (c *Conn) LoadDelayed(ctx context.Context, d Delayed) (*cloudevent.Event, error) {
	if !c.Connected() {
		return nil, ErrNotConnected
	}
	raw, err := c.lastDirect(ctx, DelayedStream, d.subject())
	if errors.Is(err, errNoMessage) {
		return nil, ErrNoDelayed
	}
	if err != nil {
		return nil, err
	}
	e, err := decode(raw.Header, raw.Data)
	if err != nil {
		return nil, err
	}
	e.Publisher = raw.Header.Get(headerPublisher)
	return &e, nil
}

var errNoMessage = errors.New("no message")

// lastDirect reads the last message of a subject from any server that has it.
func (c *Conn) lastDirect(ctx context.Context, stream, subject string) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout)
	defer cancel()
	answer, err := c.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+stream+"."+subject, nil)
	if err != nil {
		return nil, mapError(err)
	}
	switch answer.Header.Get(headerStatus) {
	case "":
	case statusNoMessages:
		return nil, errNoMessage
	default:
		return nil, fmt.Errorf("read %s: JetStream returned status %s %s", subject, answer.Header.Get(headerStatus), answer.Header.Get(headerDescription))
	}
	return answer, nil
}

// DeleteDelayed deletes an event that was published, or is cancelled. It is no error if it is gone.
func (c *Conn) DeleteDelayed(ctx context.Context, d Delayed) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	if _, err := c.purgeStream(ctx, DelayedStream, purgeRequest{Filter: d.subject()}); err != nil {
		return fmt.Errorf("delete a delayed event: %w", mapError(err))
	}
	return nil
}

// WatchDelayed calls apply with each event that is delayed from now on, one at a time, until ctx ends. What is delayed while the
// connection is down is not reported, and what is reported need not be stored.
func (c *Conn) WatchDelayed(ctx context.Context, apply func(Delayed)) error {
	return c.watchSubject(ctx, delayedPrefix+">", func(m *nats.Msg) {
		if d, ok := delayedOf(m.Subject); ok {
			apply(d)
		}
	})
}

// DelayedRoom returns the bytes that delayed events may take, and how many they may be.
func (c *Conn) DelayedRoom(ctx context.Context) (bytes uint64, events int, err error) {
	if !c.Connected() {
		return 0, 0, ErrNotConnected
	}
	stream, err := c.js.Stream(ctx, DelayedStream)
	if err != nil {
		return 0, 0, fmt.Errorf("read the limits of delayed events: %w", mapError(err))
	}
	config := stream.CachedInfo().Config
	bytes, events = math.MaxInt64, math.MaxInt
	if config.MaxBytes > 0 {
		bytes = uint64(config.MaxBytes)
	}
	if config.MaxMsgs > 0 {
		events = int(config.MaxMsgs)
	}
	return bytes, events, nil
}
