package broker

import (
	"context"
	"strconv"
	"time"
)

const (
	// oldRetryPrefix is where versions before levels of delay keep retries: rouse.retry.<namespace>.<name>, due at a time of
	// the bridge's clock. While bridges are replaced both forms come.
	oldRetryPrefix = "rouse.retry"
	// maxOldRetries is how many of them such a version has in view.
	maxOldRetries = 20_000
)

func (c *Conn) ensureOldRetryConsumer(ctx context.Context) error {
	return c.EnsureConsumer(ctx, RetryStream, Consumer{
		Name:          retryConsumer,
		Description:   "brings on retries of versions from before levels of delay",
		Subjects:      []string{oldRetryPrefix + ".>"},
		StartFrom:     StartFrom{Policy: StartAll},
		AckWait:       retryAckWait,
		MaxAckPending: maxOldRetries,
	})
}

// handleOld moves a retry of an earlier version into a level, so none of them waits for others.
func (f *forwarder) handleOld(ctx context.Context, l *fairQueue, m *Message) {
	f.work(ctx, l, m, func(ctx context.Context) {
		var wait time.Duration
		if due, err := strconv.ParseInt(m.raw.Header.Get(headerDue), 10, 64); err == nil {
			wait = min(max(time.Unix(0, due).Sub(f.clock.now()), 0), MaxRetryDelay)
		}
		f.move(ctx, m, wait, f.clock.now().Add(wait))
	})
}
