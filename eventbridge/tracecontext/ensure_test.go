package tracecontext

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	someTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	someSpan   = "00f067aa0ba902b7"
	someParent = "00-" + someTrace + "-" + someSpan + "-01"
)

func eventWith(extensions map[string]string) *cloudevent.Event {
	ev := &cloudevent.Event{ID: "1", Source: "shop", Type: "order"}
	for name, value := range extensions {
		ev.SetExtension(name, value)
	}
	return ev
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	const fresh = "^00-[0-9a-f]{32}-[0-9a-f]{16}-00$"
	for name, tc := range map[string]struct {
		extensions map[string]string
		want       string
		wantState  string
	}{
		"an event without a trace gets one that is not sampled": {nil, fresh, ""},
		"a trace stays as it is": {
			map[string]string{"traceparent": someParent, "tracestate": "a=1"}, "^" + someParent + "$", "a=1",
		},
		"what is no trace passes as it came": {map[string]string{"traceparent": "none"}, "^none$", ""},
		"a state without a trace is none":    {map[string]string{"tracestate": "a=1"}, fresh, ""},
		"a trace of B3 is the same trace": {
			map[string]string{"b3traceid": someTrace, "b3spanid": someSpan, "b3sampled": "1"}, "^" + someParent + "$", "",
		},
		"a short trace of B3 is made longer": {
			map[string]string{"b3traceid": "00F067AA0BA902B7", "b3spanid": someSpan},
			"^00-0000000000000000" + someSpan + "-" + someSpan + "-00$", "",
		},
		"a trace of B3 that is debugged is sampled": {
			map[string]string{"b3traceid": someTrace, "b3spanid": someSpan, "b3flags": "1"}, "^" + someParent + "$", "",
		},
		"what is no trace of B3 does not count": {map[string]string{"b3traceid": "a", "b3spanid": someSpan}, fresh, ""},
		"a trace of B3 without a span does not": {map[string]string{"b3traceid": someTrace}, fresh, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := eventWith(tc.extensions)
			Ensure(ev)
			require.Regexp(t, tc.want, ev.Extension("traceparent"))
			require.Equal(t, tc.wantState, ev.Extension("tracestate"))
		})
	}
}

func TestEveryTraceIsAnother(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		ev := eventWith(nil)
		Ensure(ev)
		require.NotEmpty(t, ID(ev))
		require.False(t, seen[ID(ev)])
		seen[ID(ev)] = true
	}
}

func TestID(t *testing.T) {
	t.Parallel()
	const zeros = "00000000000000000000000000000000"
	for parent, want := range map[string]string{
		someParent:                             someTrace,
		"01" + someParent[2:]:                  someTrace,
		"01" + someParent[2:] + "-later":       someTrace,
		"":                                     "",
		someParent + "-later":                  "",
		someParent + "x":                       "",
		"01" + someParent[2:] + "x":            "",
		"ff" + someParent[2:]:                  "",
		"xx" + someParent[2:]:                  "",
		someParent[:54]:                        "",
		"00-" + zeros + "-" + someSpan + "-01": "",
		"00-" + someTrace + "-" + zeros[:16] + "-01":     "",
		"00-" + someTrace[:31] + "X-" + someSpan + "-01": "",
		"00-" + someTrace + "_" + someSpan + "-01":       "",
		"00-" + someTrace + "-" + someSpan + "_01":       "",
		"00-" + someTrace + "-" + someSpan + "-0x":       "",
	} {
		require.Equal(t, want, ID(eventWith(map[string]string{"traceparent": parent})), parent)
	}
}
