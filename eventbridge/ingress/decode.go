package ingress

import (
	"encoding/json"
	"errors"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/rouse-run/rouse/eventbridge/tracing"
)

var (
	errBatch   = errors.New("not supported for batch events")
	errNotJSON = errors.New("data: MUST be JSON, because datacontenttype says so")
)

// decode reads the event of a request and adds what the transport knows of it: the trace and, when the
// publisher named none, the time. The time is set here once, so that each attempt delivers the same.
func decode(r *http.Request, now time.Time) (event.Event, error) {
	message := cehttp.NewMessageFromHttpRequest(r)
	if message.ReadEncoding() == binding.EncodingBatch {
		return event.Event{}, errBatch
	}
	ev, err := binding.ToEvent(r.Context(), message)
	if err != nil {
		return event.Event{}, errors.New(reason(err))
	}
	if err := ev.Validate(); err != nil {
		return event.Event{}, errors.New(validationText(err))
	}
	if isJSON(ev.DataContentType()) && len(ev.Data()) > 0 && !json.Valid(ev.Data()) {
		return event.Event{}, errNotJSON
	}
	tracing.Extract(r.Header, ev)
	if ev.Time().IsZero() {
		ev.SetTime(now.UTC())
	}
	return *ev, nil
}

// reason is the bare text about a body that is too large, and the whole text of anything else.
func reason(err error) string {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge.Error()
	}
	return err.Error()
}

// validationText has one line per attribute in a stable order.
func validationText(err error) string {
	fields, ok := errors.AsType[event.ValidationError](err)
	if !ok {
		return err.Error()
	}
	lines := make([]string, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		lines = append(lines, name+": "+fields[name].Error())
	}
	return strings.Join(lines, "\n")
}

func isJSON(contentType string) bool {
	if contentType == event.ApplicationJSON {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mediaType == event.ApplicationJSON || mediaType == event.TextJSON || strings.HasSuffix(mediaType, "+json"))
}
