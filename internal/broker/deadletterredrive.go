package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// Bounds of what a redrive holds in memory, and leaves half done when the
	// process is killed.
	redriveBatch      = 256
	redriveBatchBytes = 4 << 20
	// redriveInFlight requests wait for the server at a time.
	redriveInFlight = 64
	// redriveTimeout bounds how long a batch may take to be finished.
	redriveTimeout = 10 * time.Second
)

// Redriven is the result of a redrive.
type Redriven struct {
	// Redriven events are stored for their Subscriptions again.
	Redriven uint64
	// Failed dead letters are kept as they were; Problems has the reasons.
	Failed uint64
	// Remaining dead letters are kept for the selected Subscriptions now, whatever
	// their reasons.
	Remaining uint64
	// Problems has each reason of a failure once.
	Problems []string
}

// Redrive stores the events of dead letters for their Subscriptions again, as if
// no attempt had been made, and deletes each one after its event is stored.
// It leaves alone dead letters that come while it runs: what fails again does not go
// in circles.
//
// No event is lost whatever happens, because a dead letter is deleted only when its event is
// confirmed and its Subscription's consumer, without which the stream would drop
// the event, was there before and after. What was confirmed and not deleted is
// recognised by a repeat within the stream's window for duplicates, also by that
// of another process.
//
// When ctx ends it finishes the batch at hand. The result counts what was done
// also when there is an error. ErrDeadLetterNotFound and ErrConsumerNotFound mean that
// nothing could be done for a single dead letter or Subscription, also if that
// Subscription has no dead letters.
func (c *Conn) Redrive(ctx context.Context, stream string, s DeadLetterSelection) (Redriven, error) {
	return c.RedriveFunc(ctx, stream, s, nil)
}

// RedriveFunc is Redrive, and calls onRedriven, if it is not nil, for each readable event that
// went back to its Subscription, with the time at which that began.
func (c *Conn) RedriveFunc(
	ctx context.Context, stream string, s DeadLetterSelection, onRedriven func(time.Time, types.NamespacedName, *cloudevent.Event),
) (Redriven, error) {
	return c.redrive(ctx, s, redrive{events: stream, onRedriven: onRedriven})
}

// redrive runs a redrive and counts what remains.
func (c *Conn) redrive(ctx context.Context, s DeadLetterSelection, r redrive) (Redriven, error) {
	r.conn, r.blocked, r.problems = c, map[types.NamespacedName]error{}, map[string]bool{}
	err := r.run(ctx, s)
	r.done.Problems = slices.Sorted(maps.Keys(r.problems))
	// The count is worth a request also when ctx is over.
	counting, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.requestTimeout)
	defer cancel()
	if counts, countErr := c.countDeadLetters(counting, s.filter()); countErr == nil {
		for _, count := range counts {
			r.done.Remaining += count
		}
	} else {
		err = errors.Join(err, countErr)
	}
	if err != nil {
		return r.done, fmt.Errorf("redrive dead letters: %w", mapError(err))
	}
	return r.done, nil
}

type redrive struct {
	conn        *Conn
	onRedriven  func(time.Time, types.NamespacedName, *cloudevent.Event)
	edit        func(event *nats.Msg) error // changes an event before it goes back; nil for none
	deadLetters jetstream.Stream
	events      string
	done        Redriven
	blocked     map[types.NamespacedName]error
	problems    map[string]bool
}

// redriving is one dead letter that is being redriven.
type redriving struct {
	sequence     uint64
	began        time.Time
	subscription types.NamespacedName
	event        *nats.Msg
	deleted      bool
	err          error
}

func (r *redrive) run(ctx context.Context, s DeadLetterSelection) error {
	w, err := r.conn.scanDeadLetters(ctx, s, 0)
	if err != nil {
		return err
	}
	r.deadLetters = w.stream
	found := false
	for {
		batch, err := readBatch(ctx, w, s)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			break
		}
		found = true
		if err := r.change(batch); err != nil {
			return err
		}
		if err := r.finish(ctx, batch); err != nil {
			return err
		}
	}
	return r.missing(ctx, s, found)
}

// missing is an error if the one dead letter or Subscription that is selected does not exist.
func (r *redrive) missing(ctx context.Context, s DeadLetterSelection, found bool) error {
	if s.Sequence == 0 && s.Subscription == "" {
		return nil
	}
	for _, err := range r.blocked {
		return err // there is one Subscription
	}
	switch {
	case found:
		return nil
	case s.Sequence > 0:
		return fmt.Errorf("dead letter %d: %w", s.Sequence, ErrDeadLetterNotFound)
	default: // the Subscription has no dead letters, or does not exist
		_, err := r.conn.redeliveryConsumer(ctx, r.events, routing.ConsumerName(s.Namespace, s.Subscription))
		return err
	}
}

// readBatch returns nothing at the end of the dead letters.
func readBatch(ctx context.Context, w *deadLetterScan, s DeadLetterSelection) ([]redriving, error) {
	var batch []redriving
	for size := 0; len(batch) < redriveBatch && size < redriveBatchBytes; {
		raw, err := w.next(ctx)
		if err != nil {
			return nil, err
		}
		if raw == nil {
			break
		}
		if !s.picks(raw) {
			continue
		}
		deadLetter := redrivingOf(raw)
		size += len(deadLetter.event.Data)
		batch = append(batch, deadLetter)
	}
	return batch, nil
}

// redrivingOf makes the event that is published for a dead letter. Its id is that of the
// dead letter, so that the event is stored once for a consumer however often that is repeated.
func redrivingOf(raw *jetstream.RawStreamMsg) redriving {
	header := nats.Header{}
	for name, values := range raw.Header {
		if !strings.HasPrefix(name, natsHeaders) {
			header[name] = values
		}
	}
	for _, name := range []string{
		HeaderDeadLetterSubscription, HeaderDeadLetterReason, HeaderDeadLetterMessage, HeaderDeadLetterStatus,
		HeaderDeadLetterExcerpt, HeaderDeadLetterSequence, HeaderDeadLetterTime, HeaderDeadLetterSpliced,
	} {
		header.Del(name)
	}
	header.Set(HeaderAttempts, "0")
	header.Set(HeaderRedriven, formatTime(time.Now()))
	header.Set(jetstream.MsgIDHeader, strings.Join([]string{
		DeadLetterStream, strconv.FormatUint(raw.Sequence, 10), strconv.FormatInt(raw.Time.UnixNano(), 10),
	}, "/"))
	subscription := deadLetterSubscription(raw.Subject)
	consumer := routing.ConsumerName(subscription.Namespace, subscription.Name)
	return redriving{
		sequence:     raw.Sequence,
		subscription: subscription,
		event: &nats.Msg{
			Subject: routing.RedeliverySubject(consumer), Header: header, Data: unspliced(raw.Header, raw.Data),
		},
	}
}

// finish publishes a batch and deletes what was stored. It does not stop in
// between, so that what is redriven is deleted too.
func (r *redrive) finish(ctx context.Context, batch []redriving) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redriveTimeout)
	defer cancel()
	before, err := r.consumers(ctx, batch)
	if err != nil {
		return err
	}
	batch = slices.DeleteFunc(batch, func(deadLetter redriving) bool {
		err := r.blocked[deadLetter.subscription]
		if err != nil {
			r.fail(deadLetter.subscription, err)
		}
		return err != nil
	})
	eachOf(len(batch), func(i int) {
		batch[i].began = time.Now()
		event := batch[i].event
		nameFor(event, before[batch[i].subscription])
		_, batch[i].err = r.conn.js.PublishMsg(ctx, event, jetstream.WithExpectStream(r.events))
	})
	after, err := r.consumers(ctx, batch)
	if err != nil {
		return err
	}
	for i, deadLetter := range batch {
		if name := deadLetter.subscription; deadLetter.err == nil && !before[name].Equal(after[name]) {
			batch[i].err = ErrConsumerNotFound // it was deleted, and perhaps recreated, meanwhile
		}
	}
	eachOf(len(batch), func(i int) {
		if deadLetter := &batch[i]; deadLetter.err == nil {
			deadLetter.deleted, deadLetter.err = deleteDeadLetter(ctx, r.deadLetters, deadLetter.sequence)
		}
	})
	return r.count(batch)
}

// count returns an error that will hinder the next batch too.
func (r *redrive) count(batch []redriving) error {
	var hindrance error
	for _, deadLetter := range batch {
		switch err := mapError(deadLetter.err); {
		case deadLetter.deleted:
			r.done.Redriven++
			r.reportRedriven(deadLetter)
		case err == nil: // another call redrove it
		default:
			r.fail(deadLetter.subscription, err)
			if isAny(err, ErrNotConnected, ErrTimeout, ErrNoStream) {
				hindrance = err
			} else {
				r.blocked[deadLetter.subscription] = err
			}
		}
	}
	return hindrance
}

func (r *redrive) reportRedriven(deadLetter redriving) {
	if r.onRedriven == nil {
		return
	}
	if ev, err := decode(deadLetter.event.Header, deadLetter.event.Data); err == nil {
		r.onRedriven(deadLetter.began, deadLetter.subscription, &ev)
	}
}

func (r *redrive) fail(subscription types.NamespacedName, err error) {
	r.done.Failed++
	r.problems[fmt.Sprintf("%s: %v", subscription, err)] = true
}

// consumers returns since when the consumer of each Subscription of the batch
// exists, and blocks those that have none that takes redeliveries.
func (r *redrive) consumers(ctx context.Context, batch []redriving) (map[types.NamespacedName]time.Time, error) {
	created := map[types.NamespacedName]time.Time{}
	for _, deadLetter := range batch {
		name := deadLetter.subscription
		if _, known := created[name]; known || r.blocked[name] != nil {
			continue
		}
		since, err := r.conn.redeliveryConsumer(ctx, r.events, routing.ConsumerName(name.Namespace, name.Name))
		switch {
		case errors.Is(err, ErrConsumerNotFound):
			r.blocked[name] = err
		case err != nil:
			return nil, err
		default:
			created[name] = since
		}
	}
	return created, nil
}

// redeliveryConsumer returns since when a Subscription's consumer exists. ErrConsumerNotFound
// also means that it takes nothing that comes back.
func (c *Conn) redeliveryConsumer(ctx context.Context, stream, name string) (time.Time, error) {
	info, err := c.redeliveryInfo(ctx, stream, name)
	if err != nil {
		return time.Time{}, err
	}
	return info.Created, nil
}

func (c *Conn) redeliveryInfo(ctx context.Context, stream, name string) (*jetstream.ConsumerInfo, error) {
	consumer, err := c.js.Consumer(ctx, stream, name)
	if err != nil {
		return nil, fmt.Errorf("the Subscription has no consumer to deliver to: %w", mapError(err))
	}
	info := consumer.CachedInfo()
	if !slices.ContainsFunc(subjects(info.Config), func(filter string) bool {
		return subjectMatches(filter, routing.RedeliverySubject(name))
	}) {
		return nil, fmt.Errorf("the Subscription's consumer takes no redeliveries yet: %w", ErrConsumerNotFound)
	}
	return info, nil
}

// subjectMatches reports whether a subject without wildcards matches the filter.
func subjectMatches(filter, subject string) bool {
	tokens := strings.Split(subject, ".")
	wanted := strings.Split(filter, ".")
	for i, token := range wanted {
		switch {
		case i >= len(tokens):
			return false
		case token == ">":
			return true
		case token != "*" && token != tokens[i]:
			return false
		}
	}
	return len(wanted) == len(tokens)
}
