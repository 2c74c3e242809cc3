package ingress

import (
	"encoding/json"
	"errors"
	"maps"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/rouse-run/rouse/eventbridge/tracing"
)

var (
	errBatch     = errors.New("not supported for batch events")
	errNotJSON   = errors.New("data: MUST be JSON, because datacontenttype says so")
	errMalformed = errors.New("the body is not a CloudEvent")
	errTooSlow   = errors.New("the request did not arrive in time")
)

// decode reads the event of a request and adds what the transport knows of it: the trace and, when the
// publisher named none, the time. The time is set here once, so that each attempt delivers the same.
func decode(r *http.Request, now time.Time) (event.Event, error) {
	message := cehttp.NewMessageFromHttpRequest(r)
	if message.ReadEncoding() == binding.EncodingBatch {
		return event.Event{}, errBatch
	}
	ev, err := read(r, message)
	if err != nil {
		return event.Event{}, err
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

// read leaves the reading to the SDK, which panics on some bodies, such as one whose data_base64 is a number.
func read(r *http.Request, message binding.Message) (ev *event.Event, err error) {
	defer func() {
		if recover() != nil {
			ev, err = nil, errMalformed
		}
	}()
	ev, err = binding.ToEvent(r.Context(), message)
	switch {
	case err == nil:
		return ev, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errTooSlow
	default:
		return nil, errors.New(reason(err))
	}
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
