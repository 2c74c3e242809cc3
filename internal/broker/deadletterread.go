package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// maxDeadLettersScanned bounds what is read for one page of a list that skips most dead letters.
	maxDeadLettersScanned = 2000
	// maxPageBytes bounds the texts of a page.
	maxPageBytes = 1 << 20
)

// ErrDeadLetterNotFound means that there is no dead letter of that sequence.
var ErrDeadLetterNotFound = failure.ErrDeadLetterNotFound

// StoredDeadLetter is a dead letter in its stream.
type StoredDeadLetter struct {
	Sequence     uint64 // by which it is named
	Subscription types.NamespacedName
	Reason       failure.Reason
	Message      string // the reason as a sentence
	Attempts     int
	Status       int // 0 without an answer
	Excerpt      string
	Time         time.Time // when the event was given up
	Subject      string    // that the event was published under
	Stored       time.Time // when the event was published; zero when it is not known

	// What the event calls itself; empty when it cannot be read.
	ID, Source, Type string

	// Body is the event with the dead letter's extensions, or what was published when
	// it is no structured event. A list leaves it out.
	Body []byte
	// Structured is true when Body is a JSON event.
	Structured bool
}

// DeadLetterSelection picks dead letters. Its zero value picks all. The names are those that a Namespace and a Subscription can
// have: its user refuses others.
type DeadLetterSelection struct {
	Namespace    string
	Subscription string // within the namespace
	Reason       failure.Reason
	Sequence     uint64
}

// filter is the subject of all dead letters that may match.
func (s DeadLetterSelection) filter() string {
	switch {
	case s.Namespace == "":
		return routing.DeadLetterPrefix + ".>"
	case s.Subscription == "":
		return routing.DeadLetterPrefix + "." + s.Namespace + ".>"
	default:
		return routing.DeadLetterSubject(types.NamespacedName{Namespace: s.Namespace, Name: s.Subscription})
	}
}

func (s DeadLetterSelection) picks(raw *jetstream.RawStreamMsg) bool {
	reason, _, _ := reasonOf(raw.Header)
	return (s.Reason == "" || s.Reason == reason) && (s.Sequence == 0 || s.Sequence == raw.Sequence)
}

// DeadLetterQuery selects a page of dead letters.
type DeadLetterQuery struct {
	DeadLetterSelection
	After uint64 // the sequence before the first one of the page
	Limit int
}

// DeadLetterPage is part of a list, in the order of sequences.
type DeadLetterPage struct {
	DeadLetters []StoredDeadLetter
	// Next is the value of After for the next page, 0 at the end of the list.
	// A page may be shorter than asked for and yet not be the last.
	Next uint64
}

// ListDeadLetters lists without bodies. It changes nothing.
func (c *Conn) ListDeadLetters(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	page, err := c.listDeadLetters(ctx, q)
	if err != nil {
		return DeadLetterPage{}, fmt.Errorf("list dead letters: %w", mapError(err))
	}
	return page, nil
}

func (c *Conn) listDeadLetters(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	w, err := c.scanDeadLetters(ctx, q.DeadLetterSelection, q.After)
	if err != nil {
		return DeadLetterPage{}, err
	}
	page, size := DeadLetterPage{}, 0
	for range maxDeadLettersScanned {
		raw, err := w.next(ctx)
		if err != nil || raw == nil {
			return page, err
		}
		if !q.picks(raw) {
			continue
		}
		deadLetter := storedDeadLetterOf(raw)
		deadLetter.Body = nil
		page.DeadLetters = append(page.DeadLetters, deadLetter)
		size += deadLetter.texts()
		if len(page.DeadLetters) >= q.Limit || size >= maxPageBytes {
			break
		}
	}
	page.Next = w.position
	return page, nil
}

// DeadLetter returns one dead letter with its body, or ErrDeadLetterNotFound.
func (c *Conn) DeadLetter(ctx context.Context, sequence uint64) (StoredDeadLetter, error) {
	w, err := c.scanDeadLetters(ctx, DeadLetterSelection{Sequence: sequence}, 0)
	if err != nil {
		return StoredDeadLetter{}, fmt.Errorf("read dead letter %d: %w", sequence, mapError(err))
	}
	raw, err := w.next(ctx)
	if err != nil {
		return StoredDeadLetter{}, fmt.Errorf("read dead letter %d: %w", sequence, mapError(err))
	}
	if raw == nil || raw.Sequence != sequence {
		return StoredDeadLetter{}, fmt.Errorf("dead letter %d: %w", sequence, ErrDeadLetterNotFound)
	}
	return storedDeadLetterOf(raw), nil
}

// deadLetterScan reads dead letters one after the other, without a consumer that would
// have to be cleaned up.
type deadLetterScan struct {
	stream   jetstream.Stream
	filter   string
	position uint64 // of the last one that was read
	last     uint64 // what comes later is not read
}

// scanDeadLetters begins after a sequence and ends at the dead letter that is the last one now.
func (c *Conn) scanDeadLetters(ctx context.Context, s DeadLetterSelection, after uint64) (*deadLetterScan, error) {
	if !c.Connected() {
		return nil, ErrNotConnected
	}
	stream, err := c.js.Stream(ctx, DeadLetterStream)
	if err != nil {
		return nil, err
	}
	w := &deadLetterScan{stream: stream, filter: s.filter(), position: after, last: stream.CachedInfo().State.LastSeq}
	if s.Sequence > 0 {
		w.position, w.last = max(after, s.Sequence-1), min(w.last, s.Sequence)
	}
	return w, nil
}

// next returns nil at the end.
func (w *deadLetterScan) next(ctx context.Context) (*jetstream.RawStreamMsg, error) {
	if w.position == math.MaxUint64 || w.position >= w.last {
		return nil, nil
	}
	raw, err := w.stream.GetMsg(ctx, w.position+1, jetstream.WithGetMsgSubject(w.filter))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if w.position = raw.Sequence; raw.Sequence > w.last {
		return nil, nil
	}
	return raw, nil
}

func storedDeadLetterOf(raw *jetstream.RawStreamMsg) StoredDeadLetter {
	reason, message, _ := reasonOf(raw.Header)
	deadLetter := StoredDeadLetter{
		Sequence:     raw.Sequence,
		Subscription: deadLetterSubscription(raw.Subject),
		Reason:       reason,
		Message:      message,
		Attempts:     integer(raw.Header, HeaderAttempts),
		Status:       integer(raw.Header, HeaderDeadLetterStatus),
		Excerpt:      raw.Header.Get(HeaderDeadLetterExcerpt),
		Time:         raw.Time,
		Subject:      raw.Header.Get(HeaderSubject),
		Body:         raw.Data,
	}
	if stored, err := time.Parse(time.RFC3339Nano, raw.Header.Get(HeaderStored)); err == nil {
		deadLetter.Stored = stored
	}
	members, structured := structuredMembers(raw.Data)
	if !structured {
		deadLetter.ID, deadLetter.Source = raw.Header.Get(headerID), raw.Header.Get(headerSource)
		deadLetter.Type = raw.Header.Get(headerType)
		return deadLetter
	}
	deadLetter.Structured = true
	for name, field := range map[string]*string{"id": &deadLetter.ID, "source": &deadLetter.Source, "type": &deadLetter.Type} {
		_ = json.Unmarshal(members[name], field) // what is no string stays empty
	}
	var original string
	if json.Unmarshal(members[ExtensionOriginalType], &original) == nil && original != "" {
		deadLetter.Type = original
	}
	return deadLetter
}

// texts is the number of bytes that a dead letter has without its body.
func (l *StoredDeadLetter) texts() int {
	return len(l.Subscription.Namespace) + len(l.Subscription.Name) + len(l.Message) + len(l.Excerpt) + len(l.Subject) +
		len(l.ID) + len(l.Source) + len(l.Type)
}

func integer(header nats.Header, name string) int {
	value, _ := strconv.Atoi(header.Get(name)) // that of another client may have none
	return value
}

// Purge deletes dead letters for good and returns how many. It leaves alone
// dead letters that come while it runs. The count is right also when there is an error.
// ErrDeadLetterNotFound means that no dead letter has the selection's sequence.
func (c *Conn) Purge(ctx context.Context, s DeadLetterSelection) (uint64, error) {
	count, err := c.purge(ctx, s)
	if err != nil {
		return count, fmt.Errorf("purge dead letters: %w", mapError(err))
	}
	return count, nil
}

func (c *Conn) purge(ctx context.Context, s DeadLetterSelection) (uint64, error) {
	w, err := c.scanDeadLetters(ctx, s, 0)
	if err != nil {
		return 0, err
	}
	if s.Sequence == 0 && s.Reason == "" {
		return c.purgeSubject(ctx, s.filter(), w.last)
	}
	var count uint64
	for {
		sequences, err := nextSequences(ctx, w, s)
		if err != nil {
			return count, err
		}
		if len(sequences) == 0 && s.Sequence > 0 && count == 0 {
			return 0, fmt.Errorf("dead letter %d: %w", s.Sequence, ErrDeadLetterNotFound)
		}
		if len(sequences) == 0 {
			return count, nil
		}
		deleted, err := deleteDeadLetters(ctx, w.stream, sequences)
		count += deleted
		if err != nil {
			return count, err
		}
	}
}

// deleteDeadLetters counts those that were there.
func deleteDeadLetters(ctx context.Context, deadLetters jetstream.Stream, sequences []uint64) (count uint64, err error) {
	deleted := make([]bool, len(sequences))
	errs := make([]error, len(sequences))
	eachOf(len(sequences), func(i int) { deleted[i], errs[i] = deleteDeadLetter(ctx, deadLetters, sequences[i]) })
	for _, gone := range deleted {
		if gone {
			count++
		}
	}
	return count, errors.Join(errs...)
}

// nextSequences returns nothing at the end of the dead letters.
func nextSequences(ctx context.Context, w *deadLetterScan, s DeadLetterSelection) ([]uint64, error) {
	var sequences []uint64
	for len(sequences) < redriveBatch {
		raw, err := w.next(ctx)
		if err != nil || raw == nil {
			return sequences, err
		}
		if s.picks(raw) {
			sequences = append(sequences, raw.Sequence)
		}
	}
	return sequences, nil
}

// purgeRequest selects what is deleted: before a sequence, or all but the newest.
type purgeRequest struct {
	Filter string `json:"filter"`
	Before uint64 `json:"seq,omitempty"`
	Keep   uint64 `json:"keep,omitempty"`
}

// purgeSubject deletes everything up to a sequence in one request.
func (c *Conn) purgeSubject(ctx context.Context, filter string, last uint64) (uint64, error) {
	return c.purgeStream(ctx, DeadLetterStream, purgeRequest{Filter: filter, Before: last + 1})
}

// purgeStream returns how many messages were deleted, which the client library does not, and asks for nothing before, which it does.
func (c *Conn) purgeStream(ctx context.Context, stream string, request purgeRequest) (uint64, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	var result struct {
		Purged uint64 `json:"purged"`
	}
	err = c.callAPI(ctx, "$JS.API.STREAM.PURGE."+stream, body, &result)
	return result.Purged, err
}

// deleteDeadLetter reports whether it was this call that deleted the dead letter.
func deleteDeadLetter(ctx context.Context, deadLetters jetstream.Stream, sequence uint64) (bool, error) {
	err := deadLetters.DeleteMsg(ctx, sequence)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return false, err
	}
	if _, readErr := deadLetters.GetMsg(ctx, sequence); errors.Is(readErr, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	return false, err
}

// eachOf calls work with 0 to n-1, some calls at a time.
func eachOf(n int, work func(i int)) {
	var group errgroup.Group
	group.SetLimit(redriveInFlight)
	for i := range n {
		group.Go(func() error {
			work(i)
			return nil
		})
	}
	_ = group.Wait() // work keeps its errors
}
