package ingress

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	typeJSON       = "application/json"
	typeStructured = "application/cloudevents+json"
	typeBatch      = "application/cloudevents-batch+json"
)

var (
	errUnknown = errors.New("unknown Message encoding")
	errNotJSON = errors.New("data: MUST be JSON, because datacontenttype says so")
)

// bounds are what an event may have beside its data. A sink gets all attributes as headers, of which common servers take
// 16 KiB.
var bounds = cloudevent.Bounds{Extensions: 64, Attributes: 16 << 10}

// mediaType is the content type without its parameters. It copies only what is not written as usual.
func mediaType(contentType string) string {
	name, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(name))
}

// decode reads the event of a request in binary or structured mode.
func decode(header http.Header, body []byte, now time.Time) (cloudevent.Event, error) {
	var ev cloudevent.Event
	var err error
	switch {
	case mediaType(header.Get("Content-Type")) == typeStructured:
		ev, err = bounds.FromStructured(body)
	case knownVersion(header.Get("Ce-Specversion")):
		ev, err = bounds.FromBinary(header, body)
	default:
		err = errUnknown
	}
	if err != nil {
		return cloudevent.Event{}, err
	}
	return ev, complete(&ev, header, now)
}

func knownVersion(version string) bool { return version == "1.0" || version == "0.3" }

// complete checks an event and adds what the transport knows of it: the trace and, when the publisher named none, the
// time. The time is set here once, so that each attempt delivers the same.
func complete(ev *cloudevent.Event, header http.Header, now time.Time) error {
	if err := ev.Validate(); err != nil {
		return err
	}
	if len(ev.Data) > 0 && isJSON(ev.DataContentType) && !cloudevent.ValidJSON(ev.Data) {
		return errNotJSON
	}
	tracecontext.Extract(header, ev)
	if ev.Time == "" {
		ev.Time = now.UTC().Format(time.RFC3339Nano)
	}
	return nil
}

// isJSON reports whether a content type promises JSON.
func isJSON(contentType string) bool {
	if contentType == typeJSON {
		return true
	}
	name := mediaType(contentType)
	return name == typeJSON || name == "text/json" || strings.HasSuffix(name, "+json")
}
