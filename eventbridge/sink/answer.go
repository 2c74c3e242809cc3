package sink

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/httplimit"
)

const (
	excerptSize = 1 << 10  // of the body of an answer that is no success
	drainSize   = 64 << 10 // read so that the connection can be used again; beyond, it is closed
)

// readAnswer reads what matters of a response and drains it, unless that is too much. It fails when a reply breaks off,
// which would be lost otherwise.
func readAnswer(ctx context.Context, resp *http.Response, replies replyReader) (answer dispatch.Answer, drained bool, err error) {
	if err := httplimit.CheckHead(resp.Header); err != nil {
		return dispatch.Answer{}, false, err
	}
	answer.Status = resp.StatusCode
	if isEvent(resp) {
		body, release, err := replies.read(ctx, resp)
		if err != nil {
			return dispatch.Answer{}, false, fmt.Errorf("read the reply: %w", err)
		}
		answer.Reply, answer.ReplyError = readReply(resp, body, replies.most)
		answer.Release = release
		return answer, int64(len(body)) <= replies.most, nil
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		answer.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	if resp.StatusCode < http.StatusOK { // what follows another protocol's start is no body, and need not end
		return answer, false, nil
	}
	if resp.Body == http.NoBody {
		return answer, !promisesBody(resp), nil
	}
	body := &io.LimitedReader{R: resp.Body, N: drainSize}
	if resp.StatusCode >= http.StatusMultipleChoices {
		start, _ := io.ReadAll(io.LimitReader(body, excerptSize)) // a body that breaks off is still an excerpt
		answer.Excerpt = strings.ToValidUTF8(string(start), "\uFFFD")
	}
	_, broken := io.Copy(io.Discard, body) // the status has been answered, whatever becomes of the body
	return answer, broken == nil && body.N > 0, nil
}

// promisesBody reports whether an answer that has no body, as its status says, announces one. Bytes that come after it would
// be read as the answer to the next event.
func promisesBody(resp *http.Response) bool {
	length := resp.Header.Get("Content-Length")
	return len(resp.TransferEncoding) > 0 || (length != "" && length != "0")
}

// retryAfter reads both forms of the header: seconds and a date. It is 0 for anything else.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), 24*60*60)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
