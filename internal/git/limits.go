package git

import (
	"bytes"
	"strings"
	"sync"
)

const (
	// maxAdvertised is how much a repository may say of its references, some half a million of them. The server is a
	// tenant's choice.
	maxAdvertised = 32 << 20
	// complaintSize is how much of a server's words is read, to learn what they mean.
	complaintSize = 2 << 10
	// maxHeader is how large the headers of an answer may be.
	maxHeader = 64 << 10
	// maxMessage fits the words of an Error into a condition.
	maxMessage = 1 << 10
)

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
