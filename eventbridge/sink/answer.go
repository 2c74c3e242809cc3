package sink

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/httplimit"
)

const (
	excerptSize = 1 << 10  // of the body of an unsuccessful answer
	drainSize   = 64 << 10 // read so that the connection can be reused; beyond, it is closed
)

// readAnswer reads a response and drains it, unless the body is too large. It fails when a reply is truncated, because
// the reply would be lost otherwise.
func readAnswer(ctx context.Context, resp *http.Response, replies replyReader) (answer dispatch.Answer, drained bool, err error) {
	if err := httplimit.CheckHead(resp.Header); err != nil {
		return dispatch.Answer{}, false, err
	}
	answer.Status = resp.StatusCode
	if isEvent(resp) {
		body, release, err := replies.read(ctx, resp)
		if err != nil {
			return dispatch.Answer{}, false, fmt.Errorf("read the sink's reply: %w", err)
		}
		answer.Reply, answer.ReplyError = readReply(resp, body, replies.most)
		answer.Release = release
		return answer, int64(len(body)) <= replies.most, nil
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		answer.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	if resp.StatusCode < http.StatusOK { // what follows a protocol switch is not a body, and need not end
		return answer, false, nil
	}
	if resp.Body == http.NoBody {
		return answer, !promisesBody(resp), nil
	}
	body := &io.LimitedReader{R: resp.Body, N: drainSize}
	if resp.StatusCode >= http.StatusMultipleChoices {
		start, _ := io.ReadAll(io.LimitReader(body, excerptSize)) // a truncated body is still an excerpt
		answer.Excerpt = strings.ToValidUTF8(string(start), "\uFFFD")
	}
	_, broken := io.Copy(io.Discard, body) // the status is known, whatever becomes of the body
	return answer, broken == nil && body.N > 0, nil
}

// promisesBody reports whether a response whose status allows no body announces one. The bytes after it would be read
// as the response to the next event.
func promisesBody(resp *http.Response) bool {
	length := resp.Header.Get("Content-Length")
	return len(resp.TransferEncoding) > 0 || (length != "" && length != "0")
}

// retryAfter parses both forms of the header, seconds and a date. It returns 0 for anything else.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), 24*60*60)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

const structuredType = "application/cloudevents+json"

// bounds limit a reply so that a request can carry it in its header to the next sink. They apply while it is read:
// extensions take many times the memory of their text.
var bounds = cloudevent.Bounds{Extensions: 64, Attributes: 16 << 10}

// isEvent reports whether a successful response is an event.
func isEvent(resp *http.Response) bool {
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices || resp.StatusCode == http.StatusNoContent {
		return false
	}
	return isStructured(resp) || resp.Header.Get("Ce-Specversion") != ""
}

func isStructured(resp *http.Response) bool {
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), structuredType)
}

// readReply reads the event in a response.
func readReply(resp *http.Response, body []byte, limit int64) (*cloudevent.Event, error) {
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("the sink's reply has more than %d bytes", limit)
	}
	reply, err := parseReply(resp, body)
	if err == nil {
		err = reply.Validate()
	}
	if err != nil {
		return nil, err
	}
	return &reply, nil
}

func parseReply(resp *http.Response, body []byte) (cloudevent.Event, error) {
	if !isStructured(resp) {
		return bounds.FromBinary(resp.Header, body)
	}
	return bounds.FromStructured(body)
}

// MemoryBudget bounds the memory of replies, and of TLS handshakes before them. Sinks may share it.
type MemoryBudget interface {
	// Acquire takes up to bytes if at least that many are free, and returns how many it took.
	Acquire(least, most int64) int64
	// Release returns bytes.
	Release(bytes int64)
	// Freed receives a value when bytes were released after a request was refused.
	Freed() <-chan struct{}
}

const (
	// smallReply is read without acquiring memory: it fits into what each delivery takes anyway.
	smallReply = 4 << 10
	// replyFactor is how many times a reply is in memory while it is read, decoded and stored.
	replyFactor = 4
	// memoryPollInterval is the pause before memory is requested again that others may have released.
	memoryPollInterval = 20 * time.Millisecond
)

// replyReader reads the bodies of replies.
type replyReader struct {
	most   int64        // maximum bytes of a reply
	memory MemoryBudget // nil for no bound
	until  time.Time    // deadline of waiting for memory
}

// read reads a body up to one byte more than allowed. For a large body it waits for memory first, which release
// returns. It fails when the body is truncated.
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
	if r.memory == nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithDeadline(ctx, r.until)
	defer cancel()
	for {
		if taken := r.memory.Acquire(size, size); taken > 0 {
			return func() { r.memory.Release(taken) }, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for memory for the sink's reply: %w", ctx.Err())
		case <-r.memory.Freed():
		case <-time.After(memoryPollInterval):
		}
	}
}
