package event

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding/format"
	sdk "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/rouse-run/rouse/cli/exit"
)

const (
	batched = sdk.ApplicationCloudEventsBatchJSON + "; charset=utf-8"
	// maxHeaders bounds the size of an event's headers. Servers and proxies have limits of their own.
	maxHeaders = 8 << 10
)

// newRequest encodes one event in binary mode, and several as a batch, as it does with an event that headers would change.
func newRequest(ctx context.Context, url string, b Batch, pending []int) (*http.Request, error) {
	if b.Single && hasOnlyTexts(b.Events[0]) {
		request, err := cehttp.NewHTTPRequestFromEvent(ctx, url, b.Events[0])
		if err != nil || survives(request.Header) {
			return request, err
		}
	}
	body, err := encodeBatch(b.Events, pending)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", batched)
	return request, nil
}

// encodeBatch encodes each event separately: in the SDK's function for batches encoding/json rewrites the data.
func encodeBatch(events []sdk.Event, pending []int) ([]byte, error) {
	body := bytes.NewBufferString("[")
	for n, i := range pending {
		if n > 0 {
			body.WriteByte(',')
		}
		if err := sdk.WriteJson(&events[i], body); err != nil {
			return nil, err
		}
	}
	body.WriteByte(']')
	return body.Bytes(), nil
}

// hasOnlyTexts reports whether headers can represent all attributes: they have no numbers, and no bytes that might be JSON.
func hasOnlyTexts(ev sdk.Event) bool {
	for _, value := range ev.Extensions() {
		if _, isText := value.(string); !isText {
			return false
		}
	}
	return len(ev.DataEncoded) == 0 || ev.DataContentType() != ""
}

// survives reports whether headers are transmitted unchanged. The specification percent-encodes some characters, which neither the SDK nor
// the bridge does; JSON is unambiguous.
func survives(header http.Header) bool {
	size := 0
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(value)
			isType := name == cehttp.ContentType
			if isType && format.IsFormat(strings.ToLower(value)) || !isType && strings.ContainsAny(value, `%"`) {
				return false
			}
			if strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
				return false
			}
		}
	}
	return size <= maxHeaders
}

const (
	maxAnswer   = 8 << 20
	firstPause  = 200 * time.Millisecond
	maxPause    = 10 * time.Second
	unknownNote = "the bridge said nothing about it"
)

// Result is the result of one event.
type Result struct {
	ID     string `json:"id"`
	Source string `json:"source"`
	Type   string `json:"type"`
	Status int    `json:"status"` // 204 when it is stored, 202 when it is to go on later
	Reason string `json:"reason,omitempty"`
	Note   string `json:"note,omitempty"` // no Subscription matches it, although it is stored
}

// Stored reports whether the event is stored.
func (r Result) Stored() bool { return r.Status/100 == 2 }

// retryable reports whether the event may succeed when it is sent again.
func (r Result) retryable() bool {
	return r.Status >= http.StatusInternalServerError || r.Status == http.StatusTooManyRequests || r.Status == http.StatusRequestTimeout
}

// Sender sends events to a publish endpoint.
type Sender struct {
	URL    string
	Client *http.Client
	// RetryFor bounds how long events with a transient failure are retried.
	RetryFor time.Duration
	// Due is when the events are to go on; zero: at once.
	Due time.Time
	// Note is called with the reason of a retry. It may be nil.
	Note func(text string)
}

// Send returns the result of each event, in order. It fails when the endpoint cannot be reached.
func (s Sender) Send(ctx context.Context, b Batch) ([]Result, error) {
	results := make([]Result, len(b.Events))
	pending := make([]int, len(b.Events))
	for i, ev := range b.Events {
		pending[i] = i
		results[i] = Result{ID: ev.ID(), Source: ev.Source(), Type: ev.Type()}
	}
	deadline := time.Now().Add(s.RetryFor)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		wanted, err := s.try(ctx, b, pending, results)
		if err != nil {
			return results, err
		}
		retry := pending[:0]
		for _, i := range pending {
			if results[i].retryable() {
				retry = append(retry, i)
			}
		}
		pending = retry
		wait := max(pause, wanted)
		if len(pending) == 0 || time.Now().Add(wait).After(deadline) {
			return results, nil
		}
		if s.Note != nil {
			s.Note("trying again: " + results[pending[0]].Reason)
		}
		select {
		case <-ctx.Done():
			return results, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// try sends the pending events once. It returns the delay of the bridge's Retry-After.
func (s Sender) try(ctx context.Context, b Batch, pending []int, results []Result) (retryAfter time.Duration, err error) {
	request, err := newRequest(ctx, s.URL, b, pending)
	if err != nil {
		return 0, fmt.Errorf("publish: %w", err)
	}
	if !s.Due.IsZero() {
		request.Header.Set("Rouse-Deliver-At", s.Due.UTC().Format(time.RFC3339Nano))
	}
	response, err := s.Client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, exit.Errorf(exit.Unreachable, "publish: the bridge did not respond: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return 0, exit.Errorf(exit.Unreachable, "publish: the bridge cut off its response: %w", err)
	}
	judge(response.StatusCode, answer, pending, results)
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 without the header
	return time.Duration(seconds) * time.Second, nil
}

// judge records the response for each event that was sent.
func judge(status int, answer []byte, pending []int, results []Result) {
	var each []Result
	if json.Unmarshal(answer, &each) != nil || len(each) != len(pending) {
		each = nil // the response is about all events
	}
	for n, i := range pending {
		r := &results[i]
		r.Status, r.Reason = status, strings.TrimSpace(string(answer))
		if each != nil {
			r.Status, r.Reason = each[n].Status, each[n].Reason
		}
		if status/100 == 2 && each == nil {
			r.Status, r.Reason = status, ""
		}
		if !r.Stored() && r.Reason == "" {
			r.Reason = unknownNote
		}
	}
}
