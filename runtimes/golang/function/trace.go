package function

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

// place is one in a trace: W3C Trace Context, Baggage, and B3.
type place struct {
	trace, span    string
	sampled        bool
	state, baggage string
	parent         string // the span above, if this process made this one
}

const (
	zeroTrace = "00000000000000000000000000000000"
	zeroSpan  = "0000000000000000"
)

func newPlace() place {
	var random [24]byte
	_, _ = rand.Read(random[:]) // it never fails
	text := hex.EncodeToString(random[:])
	return place{trace: text[:32], span: text[32:], sampled: true}
}

func (p place) child() place {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	p.parent, p.span = p.span, hex.EncodeToString(random[:])
	return p
}

// onto writes what the next one needs to know, in every form.
func (p place) onto(header http.Header) {
	flag := "0"
	if p.sampled {
		flag = "1"
	}
	header.Set("Traceparent", "00-"+p.trace+"-"+p.span+"-0"+flag)
	header.Set("X-B3-Traceid", p.trace)
	header.Set("X-B3-Spanid", p.span)
	header.Set("X-B3-Sampled", flag)
	if p.state != "" {
		header.Set("Tracestate", p.state)
	}
	if p.baggage != "" {
		header.Set("Baggage", p.baggage)
	}
}

// placeOf is what a request carries, false for none.
func placeOf(header http.Header) (place, bool) {
	found, ok := fromW3C(header)
	if !ok {
		found, ok = fromB3(header)
	}
	found.baggage = header.Get("Baggage")
	return found, ok
}

func fromW3C(header http.Header) (place, bool) {
	parts := strings.Split(strings.TrimSpace(header.Get("Traceparent")), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 {
		return place{}, false
	}
	flags, err := strconv.ParseUint(parts[3], 16, 8)
	if err != nil || len(parts[3]) != 2 || !isID(parts[1], zeroTrace) || !isID(parts[2], zeroSpan) {
		return place{}, false
	}
	return place{trace: parts[1], span: parts[2], sampled: flags&1 == 1, state: header.Get("Tracestate")}, true
}

func fromB3(header http.Header) (place, bool) {
	trace := strings.ToLower(strings.TrimSpace(header.Get("X-B3-Traceid")))
	if len(trace) == len(zeroSpan) {
		trace = zeroSpan + trace
	}
	span := strings.ToLower(strings.TrimSpace(header.Get("X-B3-Spanid")))
	if !isID(trace, zeroTrace) || !isID(span, zeroSpan) {
		return place{}, false
	}
	sampled := true
	if text := strings.ToLower(strings.TrimSpace(header.Get("X-B3-Sampled"))); text != "" {
		sampled = text == "1" || text == "true" || text == "d"
	}
	return place{trace: trace, span: span, sampled: sampled || strings.TrimSpace(header.Get("X-B3-Flags")) == "1"}, true
}

func isID(text, zero string) bool {
	return len(text) == len(zero) && text != zero && strings.Trim(text, "0123456789abcdef") == ""
}

// Trace lets a request that the handler makes carry on the trace of its call: http.DefaultClient does not by itself.
func Trace(ctx context.Context, request *http.Request) {
	placeIn(ctx).onto(request.Header)
}

// placeIn is the place of the call, or a new trace outside of one.
func placeIn(ctx context.Context) place {
	if call := callOf(ctx); call != nil {
		return call.place
	}
	return newPlace()
}
