package tracecontext

import (
	"net/http"
	"strings"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// pair is one header and the extension that carries its value.
type pair struct{ header, extension, extensionHeader string }

// pairs are W3C's two headers and the five of B3.
func pairs() [7]pair {
	return [...]pair{
		{"Traceparent", traceparent, "Ce-Traceparent"},
		{"Tracestate", tracestate, "Ce-Tracestate"},
		{"X-B3-Traceid", "b3traceid", "Ce-B3traceid"},
		{"X-B3-Parentspanid", "b3parentspanid", "Ce-B3parentspanid"},
		{"X-B3-Spanid", "b3spanid", "Ce-B3spanid"},
		{"X-B3-Sampled", "b3sampled", "Ce-B3sampled"},
		{"X-B3-Flags", "b3flags", "Ce-B3flags"},
	}
}

// Extract copies the trace headers of a published event into its extensions. A header wins over an
// extension that the publisher set. The state of a trace counts only beside its parent.
func Extract(header http.Header, ev *cloudevent.Event) {
	for _, p := range pairs() {
		values := header[p.header]
		if len(values) == 0 || values[0] == "" {
			continue
		}
		if p.extension != tracestate {
			ev.SetExtension(p.extension, values[0])
		} else if header["Traceparent"] != nil {
			ev.SetExtension(tracestate, strings.Join(values, ","))
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
