package sink

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
)

const (
	excerptSize = 1 << 10  // of the body of an answer that is no success
	drainSize   = 64 << 10 // read so that the connection can be used again; beyond, it is closed
)

// readAnswer reads what matters of a response and drains it.
func readAnswer(resp *http.Response, maxReply int64) dispatch.Answer {
	answer := dispatch.Answer{Status: resp.StatusCode}
	if isEvent(resp) {
		answer.Reply, answer.ReplyError = readReply(resp, maxReply)
		return answer
	}
	body := io.LimitReader(resp.Body, drainSize)
	if resp.StatusCode >= http.StatusMultipleChoices {
		answer.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
		start, _ := io.ReadAll(io.LimitReader(body, excerptSize)) // a body that breaks off is still an excerpt
		answer.Excerpt = strings.ToValidUTF8(string(start), "\uFFFD")
	}
	if resp.Body == http.NoBody {
		return answer
	}
	_, _ = io.Copy(io.Discard, body) // the status has been answered, whatever becomes of the body
	return answer
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
