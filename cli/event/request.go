package event

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding/format"
	sdk "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
)

const (
	batched = sdk.ApplicationCloudEventsBatchJSON + "; charset=utf-8"
	// maxHeaders is how much an event may have in headers. Servers and what lies before them have bounds of their own.
	maxHeaders = 8 << 10
)

// newRequest sends one event in binary mode, and others as a batch. So does one that headers would change.
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

// encodeBatch writes each event by itself: the SDK's function for batches has encoding/json rewrite the data.
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

// hasOnlyTexts is false for an event with something that headers have no type for: numbers, and bytes that might be JSON.
func hasOnlyTexts(ev sdk.Event) bool {
	for _, value := range ev.Extensions() {
		if _, isText := value.(string); !isText {
			return false
		}
	}
	return len(ev.DataEncoded) == 0 || ev.DataContentType() != ""
}

// survives reports whether headers come out as they went in. The specification has some characters percent-encoded, which
// neither the SDK nor the bridge does: JSON leaves no doubt.
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
