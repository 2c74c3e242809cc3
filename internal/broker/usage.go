package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Backlog is the work that one consumer has left.
type Backlog struct {
	// Pending events were not delivered yet.
	Pending uint64
	// AckPending events were delivered and are not settled, or wait for a retry.
	AckPending uint64
}

// Total is everything that is not settled.
func (b Backlog) Total() uint64 { return b.Pending + b.AckPending }

// Backlog reads the backlog from the consumer's leader. ErrConsumerNotFound is a valid result: the
// consumer has no backlog because it does not exist; after any other error the
// backlog is unknown.
func (c *Conn) Backlog(ctx context.Context, stream, consumer string) (Backlog, error) {
	if !c.Connected() {
		return Backlog{}, fmt.Errorf("read backlog of %q: %w", consumer, ErrNotConnected)
	}
	handle, err := c.js.Consumer(ctx, stream, consumer)
	if err != nil {
		return Backlog{}, fmt.Errorf("read backlog of %q: %w", consumer, mapError(err))
	}
	info := handle.CachedInfo()
	return Backlog{Pending: info.NumPending, AckPending: uint64(info.NumAckPending)}, nil
}

// Fill returns the used share of a stream's limits, from 0 to 1: of its bytes or of its messages, whichever is
// larger. A stream without such bounds is never full. It is one request.
func (c *Conn) Fill(ctx context.Context, stream string) (float64, error) {
	if !c.Connected() {
		return 0, fmt.Errorf("read usage of stream %q: %w", stream, ErrNotConnected)
	}
	handle, err := c.js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("read usage of stream %q: %w", stream, mapError(err))
	}
	info := handle.CachedInfo()
	return max(share(info.State.Bytes, info.Config.MaxBytes), share(info.State.Msgs, info.Config.MaxMsgs)), nil
}

func share(used uint64, bound int64) float64 {
	if bound <= 0 {
		return 0
	}
	return float64(used) / float64(bound)
}

const (
	// Bounds of what one request for stored messages brings, and so of what is held in memory.
	storedBatch      = 256
	storedBatchBytes = 1 << 20
	// recordBytes is what a file takes for a message besides its subject, headers and data; headerBytes is what headers
	// have around them, and fieldBytes what each of them has.
	recordBytes = 34
	headerBytes = 12
	fieldBytes  = 4
)

// storedMessage is a message of a stream.
type storedMessage struct {
	raw      *nats.Msg
	sequence uint64
	subject  string
	size     int64 // bytes of the stream's limit that it takes
}

// readStored calls each with the stored messages that the filter matches, from a sequence on and in their order, until it
// returns false or there are no more. The stream must allow direct gets.
func (c *Conn) readStored(ctx context.Context, stream, filter string, from uint64, each func(storedMessage) bool) error {
	inbox := c.nc.NewInbox()
	answers, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return mapError(err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	for {
		request, err := json.Marshal(struct {
			Sequence uint64 `json:"seq"`
			Filter   string `json:"next_by_subj"`
			Batch    int    `json:"batch"`
			MaxBytes int    `json:"max_bytes"`
		}{max(from, 1), filter, storedBatch, storedBatchBytes})
		if err != nil {
			return err
		}
		if err := c.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, request); err != nil {
			return mapError(err)
		}
		last, more, err := c.readAnswers(ctx, answers, each)
		if err != nil || !more {
			return err
		}
		from = last + 1
	}
}

// readAnswers reads those to one request. more is false when nothing is left to be read.
func (c *Conn) readAnswers(ctx context.Context, answers *nats.Subscription, each func(storedMessage) bool) (last uint64, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout)
	defer cancel()
	for wanted := true; ; {
		raw, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return 0, false, mapError(err)
		}
		switch status := raw.Header.Get(headerStatus); status {
		case "":
			m, err := storedOf(raw)
			if err != nil {
				return 0, false, err
			}
			last = m.sequence
			wanted = wanted && each(m)
			if raw.Header.Get(headerUnread) == "" { // a server that knows no batches has sent the one
				return last, wanted, nil
			}
		case statusBatchEnd:
			return last, wanted && raw.Header.Get(headerUnread) != "0", nil
		case statusNoMessages:
			return last, false, nil
		case statusNoResponders:
			return last, false, ErrNoStream
		default:
			return last, false, fmt.Errorf("read stored messages: JetStream returned status %s %s", status, raw.Header.Get(headerDescription))
		}
	}
}

// Status of the server at the end of a batch.
const (
	statusBatchEnd = "204"
	headerUnread   = "Nats-Num-Pending"
)

// storedOf leaves out what the server has put into the answer for us.
func storedOf(raw *nats.Msg) (storedMessage, error) {
	sequence, err := strconv.ParseUint(raw.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return storedMessage{}, fmt.Errorf("read the sequence of a stored message: %w", err)
	}
	m := storedMessage{raw: raw, sequence: sequence, subject: raw.Header.Get(jetstream.SubjectHeader)}
	fields := 0
	for name, values := range raw.Header {
		switch name {
		case jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer,
			jetstream.LastSequenceHeader, headerUnread:
			continue
		}
		for _, value := range values {
			fields += len(name) + len(value) + fieldBytes
		}
	}
	if fields > 0 {
		fields += headerBytes
	}
	m.size = int64(recordBytes + len(m.subject) + fields + len(raw.Data))
	return m, nil
}
