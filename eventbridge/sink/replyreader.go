package sink

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Budget is the memory that replies, and TLS handshakes before them, may take. It may be shared with other sinks.
type Budget interface {
	// Acquire takes bytes if there are as many as the least, and returns how many it took.
	Acquire(least, most int64) int64
	// Release gives them back.
	Release(bytes int64)
	// Freed has a note when bytes were released after some were refused.
	Freed() <-chan struct{}
}

const (
	// smallReply is read without asking the budget: it fits into what each delivery takes anyway.
	smallReply = 4 << 10
	// replyFactor is how often a reply is in memory while it is read, decoded and stored.
	replyFactor = 4
	// budgetPollInterval is how soon the budget is asked again for memory that others may have given.
	budgetPollInterval = 20 * time.Millisecond
)

// replyReader reads the bodies of replies.
type replyReader struct {
	most   int64     // bytes of a reply
	budget Budget    // nil for as much as it takes
	until  time.Time // the end of waiting for memory
}

// read reads a body up to one byte more than it may have. Where it is large it waits for memory first, which release gives
// back. It fails when the body breaks off.
func (r replyReader) read(ctx context.Context, resp *http.Response) (body []byte, release func(), err error) {
	limited := &io.LimitedReader{R: resp.Body, N: r.most + 1}
	small := min(smallReply, limited.N)
	start, err := io.ReadAll(io.LimitReader(limited, small))
	if err != nil || int64(len(start)) < small || limited.N == 0 {
		return start, nil, err
	}
	size := r.most + 1
	if resp.ContentLength >= 0 {
		size = min(resp.ContentLength, size)
	}
	if release, err = r.reserve(ctx, replyFactor*size); err != nil {
		return nil, nil, err
	}
	whole := bytes.NewBuffer(start)
	if resp.ContentLength >= 0 { // all of it is reserved
		whole.Grow(int(size) - len(start) + bytes.MinRead)
	}
	if _, err = whole.ReadFrom(limited); err != nil {
		release()
		return nil, nil, err
	}
	return whole.Bytes(), release, nil
}

// reserve waits for memory of the budget.
func (r replyReader) reserve(ctx context.Context, size int64) (release func(), err error) {
	if r.budget == nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithDeadline(ctx, r.until)
	defer cancel()
	for {
		if taken := r.budget.Acquire(size, size); taken > 0 {
			return func() { r.budget.Release(taken) }, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for memory: %w", ctx.Err())
		case <-r.budget.Freed():
		case <-time.After(budgetPollInterval):
		}
	}
}
