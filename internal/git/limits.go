package git

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
)

const (
	// maxAdvertised is how much a repository may say of its references, some half a million of them. The server is a
	// tenant's choice, and the answer takes several times as much memory.
	maxAdvertised = 32 << 20
	// smallAdvertised is the size of answers that may be read side by side; larger ones come one after the other.
	smallAdvertised = 1 << 20
	// complaintSize is how much of a server's words is read, to learn what they mean.
	complaintSize = 2 << 10
	// maxHeader is how large the headers of an answer may be.
	maxHeader = 64 << 10
	// maxMessage fits the words of an Error into a condition.
	maxMessage = 1 << 10
)

// listing reads what a repository says of its references, within bounds of memory. Close lets the next large one in.
type listing struct {
	ctx   context.Context //nolint:containedctx // of the one request that it is the answer to
	from  io.Reader
	slot  chan struct{} // has one slot
	read  int64
	large bool
}

func (c *Client) listing(ctx context.Context, from io.Reader) *listing {
	return &listing{ctx: ctx, from: from, slot: c.large}
}

// Read implements io.Reader.
func (l *listing) Read(p []byte) (int, error) {
	if l.read >= maxAdvertised {
		return 0, &Error{Kind: Unreadable, Message: fmt.Sprintf(
			"the repository lists more than %d MiB of branches and tags, which is more than is read", maxAdvertised>>20)}
	}
	if l.read > smallAdvertised && !l.large {
		select {
		case l.slot <- struct{}{}:
			l.large = true
		case <-l.ctx.Done():
			return 0, l.ctx.Err()
		}
	}
	n, err := l.from.Read(p[:min(int64(len(p)), maxAdvertised-l.read)])
	l.read += int64(n)
	return n, err
}

// Close releases the slot. It does not close what the listing is read from.
func (l *listing) Close() {
	if l.large {
		l.large = false
		<-l.slot
	}
}

// beginning keeps the first words that are written to it. Its zero value is empty.
type beginning struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer and never fails.
func (b *beginning) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(p[:min(len(p), complaintSize-b.text.Len())])
	return len(p), nil
}

// String is the words on one line.
func (b *beginning) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(strings.Fields(b.text.String()), " ")
}

// shortened is a message of at most maxMessage bytes.
func shortened(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "..."
}
