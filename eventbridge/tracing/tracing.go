package tracing

import (
	"net/http"

	"github.com/cloudevents/sdk-go/v2/event"
)

// pair is one header and the extension that carries its value.
type pair struct{ header, extension, extensionHeader string }

// pairs are W3C's traceparent and the five headers of B3.
func pairs() [6]pair {
	return [...]pair{
		{"Traceparent", "traceparent", "Ce-Traceparent"},
		{"X-B3-Traceid", "b3traceid", "Ce-B3traceid"},
		{"X-B3-Parentspanid", "b3parentspanid", "Ce-B3parentspanid"},
		{"X-B3-Spanid", "b3spanid", "Ce-B3spanid"},
		{"X-B3-Sampled", "b3sampled", "Ce-B3sampled"},
		{"X-B3-Flags", "b3flags", "Ce-B3flags"},
	}
}

// Extract copies the trace headers of a published event into its extensions. A header wins over an
// extension that the publisher set.
func Extract(header http.Header, ev *event.Event) {
	for _, p := range pairs() {
		if value := header.Get(p.header); value != "" {
			ev.SetExtension(p.extension, value)
		}
	}
}

// Inject turns the extensions of an event in binary mode back into trace headers.
func Inject(header http.Header) {
	for _, p := range pairs() {
		if values := header[p.extensionHeader]; len(values) > 0 {
			header[p.header] = values
			delete(header, p.extensionHeader)
		}
	}
}
