package tracecontext

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	traceDigits = 32
	spanDigits  = 16

	flagsUnsampled = "00"
	flagsSampled   = "01"
)

// Ensure gives an event without a traceparent one, so that all events of a chain share the id of a trace also where no
// collector is configured. It is that of B3 if the event has one, else a new one, which says that it is not sampled.
func Ensure(ev *cloudevent.Event) {
	if ev.Extension(traceparent) != "" {
		return
	}
	ev.DeleteExtension(tracestate) // of no trace
	if parent, ok := ofB3(ev); ok {
		ev.SetExtension(traceparent, parent)
		return
	}
	ev.SetExtension(traceparent, newParent())
}

// ID is the id of the event's trace, empty without one. A traceparent is, as W3C Trace Context has it, a version, the ids of
// trace and span, and flags; later versions may have more.
func ID(ev *cloudevent.Event) string {
	const start, end = len("00-"), len("00-") + traceDigits
	const spanEnd = end + len("-") + spanDigits
	const length = spanEnd + len("-00")
	parent := ev.Extension(traceparent)
	switch {
	case len(parent) < length, parent[start-1] != '-', parent[end] != '-', parent[spanEnd] != '-':
		return ""
	case len(parent) > length && (parent[:2] == "00" || parent[length] != '-'), parent[:2] == "ff":
		return ""
	case !isHex(parent[:2]), !isID(parent[start:end]), !isID(parent[end+1 : spanEnd]), !isHex(parent[spanEnd+1 : length]):
		return ""
	default:
		return parent[start:end]
	}
}

// ofB3 is the traceparent that means what B3's extensions say.
func ofB3(ev *cloudevent.Event) (string, bool) {
	id, span := strings.ToLower(ev.Extension("b3traceid")), strings.ToLower(ev.Extension("b3spanid"))
	if len(id) == traceDigits/2 {
		id = strings.Repeat("0", traceDigits/2) + id
	}
	if len(id) != traceDigits || len(span) != spanDigits || !isID(id) || !isID(span) {
		return "", false
	}
	flags := flagsUnsampled
	if sampling := ev.Extension("b3sampled"); sampling == "1" || sampling == "true" || ev.Extension("b3flags") == "1" {
		flags = flagsSampled
	}
	return "00-" + id + "-" + span + "-" + flags, true
}

// newParent begins a trace. Neither id is all zeros, which would be none.
func newParent() string {
	const idBytes, spanBytes = traceDigits / 2, spanDigits / 2
	var ids [idBytes + spanBytes]byte
	binary.NativeEndian.PutUint64(ids[0:], rand.Uint64())           //nolint:gosec // they need to differ, not to be secret
	binary.NativeEndian.PutUint64(ids[idBytes/2:], rand.Uint64()|1) //nolint:gosec // the same
	binary.NativeEndian.PutUint64(ids[idBytes:], rand.Uint64()|1)   //nolint:gosec // the same
	text := make([]byte, 0, len("00-")+traceDigits+len("-")+spanDigits+len("-00"))
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, ids[:idBytes])
	text = append(text, '-')
	text = hex.AppendEncode(text, ids[idBytes:])
	return string(append(text, "-"+flagsUnsampled...))
}

// isID reports whether a text is made of lower-case hexadecimal digits, and not of zeros alone.
func isID(text string) bool { return isHex(text) && strings.Trim(text, "0") != "" }

func isHex(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
