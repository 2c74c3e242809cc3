package expect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

func priced(id, data string) cloudevent.Event {
	return cloudevent.Event{ID: id, Type: "order.priced", Source: "pricing", Data: []byte(data)}
}

func ended(kind journal.Kind, id string, status int) journal.Record {
	return journal.Record{
		Kind: kind, Type: "order.received", Source: "shop", ID: id, Namespace: "orders", Subscription: "pricing", Sink: "orders/pricing",
		Attempt: 1, Status: status, Reason: "SinkRefused",
	}
}

func TestARunIsComparedWithWhatIsExpected(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file string
		seen Observed
		want []string
	}{
		"nothing is expected of events": {"publish: [{type: a, source: b}]", Observed{Emitted: []cloudevent.Event{priced("1", "{}")}}, nil},
		"as expected": {
			"emitted: [{type: order.priced, data: {total: 42}}]",
			Observed{Emitted: []cloudevent.Event{priced("1", `{"total": 42.0, "tax": 8}`)}},
			nil,
		},
		"another value": {
			"emitted:\n- type: order.priced\n  data: {total: 42, items: [{sku: A}]}",
			Observed{Emitted: []cloudevent.Event{priced("1", `{"total": 40, "items": [{"sku": "B", "n": 1}]}`)}},
			[]string{"emitted order.priced:2", `data.items[0].sku: expected "A", got "B"`, "data.total: expected 42, got 40"},
		},
		"a member that is missing": {
			"emitted: [{type: order.priced, subject: x, data: {a: {b: 1}}}]",
			Observed{Emitted: []cloudevent.Event{priced("1", `{"a": {}}`)}},
			[]string{"emitted order.priced:1", "data.a.b: expected 1, and it is missing", `subject: expected "x", and it is missing`},
		},
		"a list of another length": {
			"emitted: [{data: [1, 2]}]",
			Observed{Emitted: []cloudevent.Event{priced("1", "[1]")}},
			[]string{`emitted {"data":[1,2]}:1`, "data: expected [1,2], got [1]"},
		},
		"an event that is missing": {"emitted: [{type: order.priced}]", Observed{}, []string{"emitted order.priced:1", "expected, and there is none"}},
		"none is expected": {
			"emitted: []",
			Observed{Emitted: []cloudevent.Event{priced("1", `"x"`)}},
			[]string{"emitted order.priced 1 from pricing:0", `not expected, with data "x"`},
		},
		"a broad entry leaves the event that a narrow one needs": {
			"emitted: [{type: order.priced}, {type: order.priced, id: '1'}]",
			Observed{Emitted: []cloudevent.Event{priced("1", "{}"), priced("2", "{}")}},
			nil,
		},
		"an answer": {
			"replies: [{type: order.received, function: pricing, status: 204, attempts: 1}]",
			Observed{Settled: []journal.Record{ended(journal.Delivered, "7", 200)}},
			[]string{"reply order.received at pricing:1", "status: expected 204, got 200"},
		},
		"a dead letter that nobody expects": {
			"emitted: []",
			Observed{Settled: []journal.Record{ended(journal.DeadLettered, "7", 400)}},
			[]string{"dead letter order.received 7 from shop at orders/pricing:0", "not expected, with status 400"},
		},
		"a dead letter as expected": {
			"deadLetters: [{id: '7', subscription: pricing, reason: SinkRefused, status: 400}]",
			Observed{Settled: []journal.Record{ended(journal.DeadLettered, "7", 400)}},
			nil,
		},
		"numbers beyond those of a float": {
			"emitted: [{data: 9007199254740993}]",
			Observed{Emitted: []cloudevent.Event{priced("1", "9007199254740992")}},
			[]string{`emitted {"data":9007199254740993}:1`, "data: expected 9007199254740993, got 9007199254740992"},
		},
		"data that are a text": {"emitted: [{data: hello}]", Observed{Emitted: []cloudevent.Event{priced("1", "hello")}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := Read("checks.yaml", []byte(tc.file))
			require.NoError(t, err)
			var found []string
			for _, difference := range file.Compare(tc.seen) {
				found = append(found, difference.What+":"+string(rune('0'+difference.Line)))
				found = append(found, difference.Lines...)
			}
			require.Equal(t, tc.want, found)
		})
	}
}

func TestAnEventOfAFileHasAnIDAndJSONData(t *testing.T) {
	t.Parallel()
	file, err := Read("checks.yaml", []byte("publish:\n- type: order.received\n  source: shop\n  tenant: a\n  data: {id: '1001', total: 1.50}\n"))
	require.NoError(t, err)
	require.Len(t, file.Publish, 1)
	event := file.Publish[0]
	require.Equal(t, "expect-1", event.ID)
	require.Equal(t, "application/json", event.DataContentType)
	require.Equal(t, "a", event.Extension("tenant"))
	require.JSONEq(t, `{"id": "1001", "total": 1.5}`, string(event.Data))
}

func TestAFileThatIsWrongIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ file, want string }{
		"no YAML":            {"emitted: [", "it is not YAML: line 1"},
		"empty":              {"", "it is empty"},
		"another part":       {"outputs: []", `there is no part "outputs": use publish, emitted, replies or deadLetters`},
		"a part twice":       {"emitted: []\nemitted: []", `"emitted" already`},
		"no list":            {"emitted: {type: a}", "it is not YAML of lists"},
		"no object":          {"emitted:\n- order.priced", "line 2: emitted: an entry is an object"},
		"an empty entry":     {"emitted: [{}]", "line 1: emitted: an entry names at least one member"},
		"another member":     {"replies:\n\n- state: 200", `line 3: replies: there is no member "state": use some of type`},
		"an invalid event":   {"publish:\n- type: a", "line 2: publish: it is not a CloudEvent"},
		"too many":           {"emitted: [" + strings.Repeat("{type: a},", maxEntries+1) + "]", "emitted has 1001 entries, and 1000 are allowed"},
		"too many bytes":     {strings.Repeat("#", MaxSize+1), "bytes, and 4194304 are allowed"},
		"aliases of aliases": {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]", "excessive aliasing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Read("checks.yaml", []byte(tc.file))
			require.ErrorContains(t, err, "read the expectations in checks.yaml: ")
			require.ErrorContains(t, err, tc.want)
		})
	}
}
