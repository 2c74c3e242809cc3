package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/failure"
)

// ScheduleStream holds what was published last of each Schedule.
const ScheduleStream = "rouse-schedules"

const (
	cursorPrefix = "rouse.schedule."
	// maxCursor bounds a cursor, and the others the stream: one takes some 400 bytes.
	maxCursor      = 1 << 10
	maxCursors     = 40_000
	maxCursorBytes = 16 << 20
)

// Cursor is how far the events of a Schedule are published.
type Cursor struct {
	// Generation of the Schedule that Through counts for.
	Generation int64 `json:"generation"`
	// Through is the last due time that is settled, or the time from which the generation counts.
	Through time.Time `json:"through"`
	// LastDue is that of the last event, LastPublished when it was stored, and LastID its id. Zero values: there was none.
	LastDue       time.Time `json:"lastDue,omitzero"`
	LastPublished time.Time `json:"lastPublished,omitzero"`
	LastID        string    `json:"lastID,omitempty"`
	// Published and Missed count events.
	Published int64 `json:"published"`
	Missed    int64 `json:"missed"`

	// Revision is the sequence of the stored cursor; 0: it is not stored, or not known.
	Revision uint64 `json:"-"`
}

// ErrOvertaken means that another process has stored a later cursor.
var ErrOvertaken = failure.ErrOvertaken

func scheduleStream(o StreamOptions) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              ScheduleStream,
		Description:       "what Rouse published last of each Schedule",
		Subjects:          []string{cursorPrefix + "*"},
		Retention:         jetstream.LimitsPolicy,
		Storage:           storageType(o.Storage),
		Replicas:          o.Replicas,
		MaxMsgs:           maxCursors,
		MaxMsgsPerSubject: 1,
		MaxMsgSize:        maxCursor,
		MaxBytes:          maxCursorBytes,
		Duplicates:        scheduleWindow,
		Discard:           jetstream.DiscardNew,
		AllowDirect:       true,
	}
}

// scheduleWindow is the least that the server takes: cursors have no message ids.
const scheduleWindow = 100 * time.Millisecond

// StoreCursor stores the cursor of a Schedule after the one with its Revision, and returns the new one. ErrOvertaken means
// that another one is stored.
func (c *Conn) StoreCursor(ctx context.Context, uid string, cursor Cursor) (Cursor, error) {
	if !c.Connected() {
		return cursor, ErrNotConnected
	}
	data, err := json.Marshal(cursor)
	if err != nil {
		return cursor, fmt.Errorf("store the cursor of Schedule %s: %w", uid, err)
	}
	header := nats.Header{jetstream.ExpectedLastSubjSeqHeader: []string{strconv.FormatUint(cursor.Revision, 10)}}
	stored, err := c.js.PublishMsg(ctx, &nats.Msg{Subject: cursorPrefix + uid, Header: header, Data: data})
	switch {
	case isWrongSequence(err):
		return cursor, ErrOvertaken
	case err != nil:
		return cursor, fmt.Errorf("store the cursor of Schedule %s: %w", uid, mapError(err))
	}
	cursor.Revision = stored.Sequence
	return cursor, nil
}

func isWrongSequence(err error) bool {
	api, ok := errors.AsType[jetstream.JetStreamError](err)
	return ok && api.APIError() != nil &&
		(api.APIError().ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.APIError().ErrorCode == codeWrongSequence)
}

// Cursor reads the stored cursor of a Schedule. One that has none has a zero cursor.
func (c *Conn) Cursor(ctx context.Context, uid string) (Cursor, error) {
	if !c.Connected() {
		return Cursor{}, ErrNotConnected
	}
	raw, err := c.lastDirect(ctx, ScheduleStream, cursorPrefix+uid)
	switch {
	case errors.Is(err, errNoMessage):
		return Cursor{}, nil
	case err != nil:
		return Cursor{}, fmt.Errorf("read the cursor of Schedule %s: %w", uid, err)
	}
	revision, err := strconv.ParseUint(raw.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return Cursor{}, fmt.Errorf("read the cursor of Schedule %s: JetStream returned no sequence", uid)
	}
	return decodeCursor(raw.Data, revision)
}

func decodeCursor(data []byte, revision uint64) (Cursor, error) {
	var cursor Cursor
	if err := json.Unmarshal(data, &cursor); err != nil {
		return Cursor{}, fmt.Errorf("decode the cursor of a Schedule: %w", err)
	}
	cursor.Revision = revision
	return cursor, nil
}

// WatchCursors calls apply with each cursor that is published from now on, without its Revision, one at a time, until ctx ends. What
// is published while the connection is down is not reported, and a reported one need not be stored.
func (c *Conn) WatchCursors(ctx context.Context, apply func(uid string, cursor Cursor)) error {
	return c.watchSubject(ctx, cursorPrefix+"*", func(m *nats.Msg) {
		if cursor, err := decodeCursor(m.Data, 0); err == nil && len(m.Data) <= maxCursor {
			apply(strings.TrimPrefix(m.Subject, cursorPrefix), cursor)
		}
	})
}

// DeleteCursor deletes the cursor of a Schedule that is gone.
func (c *Conn) DeleteCursor(ctx context.Context, uid string) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	if _, err := c.purgeStream(ctx, ScheduleStream, purgeRequest{Filter: cursorPrefix + uid}); err != nil && !errors.Is(mapError(err), ErrNoStream) {
		return fmt.Errorf("delete the cursor of Schedule %s: %w", uid, err)
	}
	return nil
}

// CursorUIDs returns the UIDs of the Schedules that have cursors.
func (c *Conn) CursorUIDs(ctx context.Context) ([]string, error) {
	info, err := c.subjects(ctx, ScheduleStream, cursorPrefix+"*")
	if err != nil {
		return nil, fmt.Errorf("list the cursors of Schedules: %w", err)
	}
	uids := make([]string, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		uids = append(uids, strings.TrimPrefix(subject, cursorPrefix))
	}
	return uids, nil
}
