package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// Purge deletes dead letters for good and returns how many. It leaves alone
// dead letters that come while it runs. The count is right also when there is an error.
// ErrDeadLetterNotFound means that there is none with the selection's sequence.
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
	return c.purgeDeadLetters(ctx, purgeRequest{Filter: filter, Before: last + 1})
}

// purgeDeadLetters returns how many messages were deleted, which the client library does not.
func (c *Conn) purgeDeadLetters(ctx context.Context, request purgeRequest) (uint64, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	var result struct {
		Purged uint64 `json:"purged"`
	}
	err = c.callAPI(ctx, "$JS.API.STREAM.PURGE."+DeadLetterStream, body, &result)
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
