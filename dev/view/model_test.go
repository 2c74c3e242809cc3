package view

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// begin is the start of the scripted run.
func begin(after time.Duration) time.Time {
	return time.Date(2024, 3, 4, 14, 3, 24, 592e6, time.UTC).Add(after)
}

func functionOf(namespace, name, phase, lastError string) Function {
	return Function{Status: runner.Status{
		Namespace: namespace, Name: name, Runtime: "nodejs22", Phase: phase, LastError: lastError,
		At: manifest.Position{File: name + ".yaml", Line: 2},
	}}
}

// orders is a run of the order chain: three Functions, one of them awake, one event through all of them, one event that
// is retried and one that became a dead letter, and a Function that does not start.
func orders() batch {
	pricing := functionOf("orders", "pricing", runner.Ready, "")
	pricing.URL, pricing.Ready, pricing.Desired, pricing.Wakes, pricing.LastWake = "http://127.0.0.1:8081", 1, 1, 3, 187*time.Millisecond
	invoicing := functionOf("orders", "invoicing", runner.Waking, "")
	invoicing.URL, invoicing.Desired, invoicing.Backlog = "http://127.0.0.1:8082", 1, 2
	recorder := functionOf("orders", "recorder", runner.Asleep, "")
	recorder.URL, recorder.Wakes, recorder.LastWake = "http://127.0.0.1:8083", 1, 1204*time.Millisecond
	reports := functionOf("orders", "reports", runner.Failing, "SyntaxError: Unexpected token ')' at reports.yaml:12\n  12 | main())\n")
	reports.URL = "http://127.0.0.1:8084"
	return batch{
		state: &State{
			Directory: "samples/orders", Publish: "http://127.0.0.1:8080/publish", Admin: "http://127.0.0.1:40231",
			Functions:   []Function{pricing, invoicing, recorder, reports},
			DeadLetters: map[types.NamespacedName]uint64{{Namespace: "orders", Name: "pricing"}: 1},
			Problems: []manifest.Problem{{
				Position: manifest.Position{File: "reports.yaml", Line: 7}, Object: "Function orders/reports",
				Message: `spec.runtime: Unsupported value: "nodejs18"`, Remedy: "use nodejs22", Warning: true,
			}},
		},
		events: orderEvents(),
		lines: []process.Line{
			{Time: begin(0), Stream: process.Rouse, Text: "publish to http://127.0.0.1:8080/publish"},
			{Time: begin(200 * time.Millisecond), Namespace: "orders", Function: "pricing", Stream: process.Stdout, Text: "priced 1001"},
			{Time: begin(600 * time.Millisecond), Namespace: "orders", Function: "invoicing", Stream: process.Stderr, Text: "19 percent of 1130 is \x1b[31m214.7\x1b[0m"},
		},
	}
}

func orderEvents() []journal.Record {
	due := begin(4 * time.Second)
	delivery := func(kind journal.Kind, kindOf, id, source, to string, began, took time.Duration) journal.Record {
		return journal.Record{
			Time: begin(began + took), Kind: kind, ID: id, Source: source, Type: kindOf, Namespace: "orders", Subscription: to,
			Sink: "orders/" + to, Attempt: 1, Status: 200, Began: begin(began), Took: took,
		}
	}
	stored := func(kindOf, id, source, cause string, at time.Duration) journal.Record {
		return journal.Record{Time: begin(at), Kind: journal.Stored, ID: id, Source: source, Type: kindOf, Cause: cause, Took: time.Millisecond}
	}
	of := func(r journal.Record, stored time.Duration) journal.Record {
		r.Stored = begin(stored)
		return r
	}
	retry := of(delivery(journal.Retry, "order.received", "1002", "shop", "pricing", 300*time.Millisecond, 3*time.Millisecond), 280*time.Millisecond)
	retry.Status, retry.Reason, retry.Message, retry.Due = 503, "SinkOverloaded", "the sink answered 503", &due
	dead := of(delivery(journal.DeadLettered, "order.received", "1003", "shop", "pricing", 310*time.Millisecond, 4*time.Millisecond), 280*time.Millisecond)
	dead.Status, dead.Attempt, dead.Reason, dead.Message = 400, 1, "SinkRejected", `the sink refused it with 400: order 1003: unknown product "beer"`
	return []journal.Record{
		stored("order.received", "1001", "shop", "", 0),
		stored("order.received", "1002", "shop", "", 280*time.Millisecond),
		stored("order.received", "1003", "shop", "", 280*time.Millisecond),
		stored("order.priced", "1001.priced", "pricing", "1001", 200*time.Millisecond),
		of(delivery(journal.Delivered, "order.received", "1001", "shop", "pricing", 190*time.Millisecond, 12*time.Millisecond), 0),
		retry,
		dead,
		stored("order.invoiced", "1001.invoiced", "invoicing", "1001.priced", 700*time.Millisecond),
		of(delivery(journal.Delivered, "order.priced", "1001.priced", "pricing", "invoicing", 690*time.Millisecond, 21*time.Millisecond), 200*time.Millisecond),
		of(delivery(journal.Delivered, "order.invoiced", "1001.invoiced", "invoicing", "recorder", 1904*time.Millisecond, 5*time.Millisecond), 700*time.Millisecond),
		stored("order.received", "order-1710000000000-17", "shop", "", 2*time.Second),
	}
}

func modelOf(t *testing.T, width, height int, b batch) *model {
	t.Helper()
	m := newModel(newStyle(io.Discard, environment{}), time.UTC)
	m.width, m.height = width, height
	m.receive(b)
	return m
}

func TestTheHeaderHasTheHostsOfAPIRules(t *testing.T) {
	t.Parallel()
	b := orders()
	b.state.APIRules = []APIRule{
		{Name: "shop", URL: "http://shop.localhost:8070"}, {Name: "wrong"}, {Name: "status", URL: "http://status.localhost:8070\x1b[31m"},
	}
	m := modelOf(t, 80, 24, b)
	require.Equal(t, " APIRules http://shop.localhost:8070   http://status.localhost:8070", strings.Split(m.view(), "\n")[2])
	require.Len(t, strings.Split(m.view(), "\n"), 24)

	b.state.APIRules = b.state.APIRules[1:2]
	require.Equal(t, " APIRules none is served", strings.Split(modelOf(t, 80, 24, b).view(), "\n")[2])
}

func TestKeysMoveThroughTheView(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		keys []string
		want func(t *testing.T, m *model)
	}{
		"tab goes round all panes": {
			keys: []string{"tab", "tab", "tab", "tab"},
			want: func(t *testing.T, m *model) {
				t.Helper()
				require.Equal(t, paneEvents, m.focus)
			},
		},
		"a number shows the logs of that Function": {
			keys: []string{"2"},
			want: func(t *testing.T, m *model) {
				t.Helper()
				require.Contains(t, m.view(), "Logs of invoicing")
				require.Contains(t, m.view(), "19 percent")
				require.NotContains(t, m.view(), "priced 1001")
			},
		},
		"a number without a Function does nothing": {
			keys: []string{"9"},
			want: func(t *testing.T, m *model) {
				t.Helper()
				require.Equal(t, paneEvents, m.focus)
			},
		},
		"down and enter show the logs of the next Function": {
			keys: []string{"shift+tab", "down", "enter"},
			want: func(t *testing.T, m *model) {
				t.Helper()
				require.Equal(t, "invoicing", m.only.Name)
			},
		},
		"escape shows the logs of all again": {
			keys: []string{"l", "esc"},
			want: func(t *testing.T, m *model) {
				t.Helper()
				require.Empty(t, m.only.Name)
				require.Contains(t, m.view(), "19 percent")
			},
		},
		"clearing the events keeps the counts": {
			keys: []string{"c"},
			want: func(t *testing.T, m *model) {
				t.Helper()
				require.Contains(t, m.view(), "no events yet")
				require.Contains(t, m.view(), "3 delivered")
			},
		},
		"clearing the logs leaves the events": {
			keys: []string{"tab", "c"},
			want: func(t *testing.T, m *model) {
				t.Helper()
				require.Empty(t, m.lines)
				require.NotZero(t, m.flow.hops)
			},
		},
		"a question mark opens the help and any key closes it": {
			keys: []string{"?", "x"},
			want: func(t *testing.T, m *model) {
				t.Helper()
				require.False(t, m.help)
			},
		},
		"the third pane after the events are the problems": {
			keys: []string{"tab", "tab"},
			want: func(t *testing.T, m *model) {
				t.Helper()
				require.Contains(t, m.view(), "reports.yaml:7, Function orders/reports")
			},
		},
		"scrolling stops at the oldest": {
			keys: []string{"home", "up", "pgup"},
			want: func(t *testing.T, m *model) {
				t.Helper()
				require.Equal(t, max(0, m.length(paneEvents)-m.layout().rows(paneEvents)), m.scroll[paneEvents])
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := modelOf(t, 80, 24, orders())
			for _, key := range tc.keys {
				require.Equal(t, actionNone, m.press(key))
			}
			tc.want(t, m)
		})
	}
}

func TestKeysReturnCommandsForTheCaller(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]action{"q": actionQuit, "ctrl+c": actionQuit, "p": actionPublish, "x": actionNone} {
		require.Equal(t, want, modelOf(t, 80, 24, orders()).press(key), "key %s", key)
	}
	m := modelOf(t, 80, 24, orders())
	m.press("?")
	require.Equal(t, actionQuit, m.press("q"), "quits from the help as well")
}

func TestTheScreenIsExactlyAsLargeAsTheTerminal(t *testing.T) {
	t.Parallel()
	b := orders()
	b.lines = append(b.lines, process.Line{Function: "pricing", Namespace: "orders", Text: strings.Repeat("漢字 🎉 ", 200)})
	b.events = append(b.events, journal.Record{Kind: journal.Stored, ID: strings.Repeat("字", 90), Type: strings.Repeat("界", 90), Source: "源"})
	for _, width := range []int{1, 7, 40, 79, 80, 99, 100, 137, 300} {
		for _, height := range []int{1, 2, 5, 9, 24, 40, 90} {
			m := modelOf(t, width, height, b)
			for p := range panes {
				m.setFocus(p)
				lines := strings.Split(m.view(), "\n")
				require.Len(t, lines, height, "%dx%d, pane %d", width, height, p)
				for _, line := range lines {
					require.LessOrEqual(t, ansi.StringWidth(line), width, "%dx%d, pane %d: %q", width, height, p, line)
				}
			}
		}
	}
}

func TestRedrivenOrPurgedDeadLettersDisappear(t *testing.T) {
	t.Parallel()
	of := types.NamespacedName{Namespace: "orders", Name: "pricing"}
	record := func(kind journal.Kind, id string) journal.Record {
		return journal.Record{Kind: kind, ID: id, Source: "shop", Type: "order.received", Namespace: of.Namespace, Subscription: of.Name}
	}
	kept := func(n uint64) *State { return &State{DeadLetters: map[types.NamespacedName]uint64{of: n}} }
	m := modelOf(t, 120, 40, batch{
		state: kept(3), events: []journal.Record{record(journal.DeadLettered, "1"), record(journal.DeadLettered, "2"), record(journal.DeadLettered, "3")},
	})
	shown := func() string {
		var ids []string
		for _, r := range m.kept() {
			ids = append(ids, r.ID)
		}
		return strings.Join(ids, " ")
	}
	require.Contains(t, m.counts(), "3 dead letters")
	require.Equal(t, "1 2 3", shown())
	m.receive(batch{state: kept(2), events: []journal.Record{record(journal.Redriven, "2")}})
	require.Contains(t, m.counts(), "2 dead letters")
	require.Equal(t, "1 3", shown())
	m.receive(batch{state: kept(0)})
	require.NotContains(t, m.counts(), "dead letter")
	require.Empty(t, shown())
}

func TestEventsPaneShowsEventsWithoutSubscription(t *testing.T) {
	t.Parallel()
	screen := modelOf(t, 120, 40, batch{events: []journal.Record{nobodys()}}).view()
	require.Regexp(t, `order\.receivd +1 +shop → nobody *\n *no Subscription takes it; did you mean order\.received from shop\?`, screen)
}

func TestTableShowsTheReasonWhyAFunctionWaits(t *testing.T) {
	t.Parallel()
	fn := functionOf("orders", "pricing", runner.Preparing, "")
	fn.Doing, fn.DoingFor = "installing the dependencies", 12*time.Second
	screen := modelOf(t, 120, 40, batch{state: &State{Functions: []Function{fn}}}).view()
	require.Regexp(t, `pricing +◌ preparing .*\n +installing the dependencies \(12 s\)`, screen)
}

func TestTableSaysThatAnOlderVersionAnswers(t *testing.T) {
	t.Parallel()
	broken := functionOf("orders", "pricing", runner.Failing, "pricing.yaml:12: TypeError: no price (exit status 1)\n  at main")
	broken.Older = true
	screen := modelOf(t, 120, 40, batch{state: &State{Functions: []Function{broken}}}).view()
	require.Contains(t, screen, "  an older version answers: pricing.yaml:12: TypeError: no price (exit status 1)")
}

func TestTableSaysHowManyFunctionsItHides(t *testing.T) {
	t.Parallel()
	screen := func(n int) string {
		s := &State{}
		for i := range n {
			s.Functions = append(s.Functions, functionOf("orders", "fn-"+strconv.Itoa(i), runner.Asleep, ""))
		}
		return modelOf(t, 120, 40, batch{state: s}).view()
	}
	require.NotContains(t, screen(3), "hidden")
	many := screen(50)
	require.Contains(t, many, fmt.Sprintf(" %d hidden", 50-strings.Count(many, "fn-")))
}

func TestShownTextCannotControlTheTerminal(t *testing.T) {
	t.Parallel()
	evil := "\x1b[2J\x1b]0;owned\x07\x1bP+q\x1b\\\x9b31m\u009b2J\rx\bx\x00\u202egnp\u2066\ufe0f\xff\x7f"
	at := time.Unix(0, 0)
	b := batch{
		state: &State{
			Directory: evil, Publish: evil, Admin: evil,
			Functions: []Function{functionOf(evil, evil, evil, evil)},
			Problems:  []manifest.Problem{{Position: manifest.Position{File: evil}, Object: evil, Message: evil, Remedy: evil}},

			DeadLetters: map[types.NamespacedName]uint64{{}: 1},
		},
		events: []journal.Record{
			{Time: at, Kind: journal.Stored, ID: evil, Source: evil, Type: evil, Cause: evil},
			{Time: at, Kind: journal.Retry, ID: evil, Source: evil, Type: evil, Namespace: evil, Subscription: evil, Sink: evil, Reason: evil, Message: evil},
			{Time: at, Kind: journal.DeadLettered, ID: evil + "2", Source: evil, Type: evil, Sink: evil, Reason: evil, Message: evil},
		},
		lines: []process.Line{{Time: at, Namespace: evil, Function: evil, Replica: evil, Stream: evil, Text: evil}},
	}
	m := modelOf(t, 120, 40, b)
	for p := range panes {
		m.setFocus(p)
		for _, r := range m.view() {
			require.True(t, r == '\n' || r >= ' ' && (r < 0x7f || r > 0x9f) && r != '\u202e' && r != '\u2066', "%q is written", r)
		}
	}
	var out strings.Builder
	p := newPrinter(plain{out: &out, location: time.UTC, now: func() time.Time { return at }}, nil)
	p.state(*b.state)
	p.event(b.events[2])
	p.line(b.lines[0])
	for _, r := range out.String() {
		require.True(t, r == '\n' || r >= ' ' && (r < 0x7f || r > 0x9f) && r != '\u202e' && r != '\u2066', "%q is printed", r)
	}
}

func TestKeptRecordsAndLinesAreBounded(t *testing.T) {
	t.Parallel()
	m := modelOf(t, 80, 24, batch{})
	in := newInbox()
	for i := range 3 * mostWaiting {
		in.event(journal.Record{Kind: journal.Stored, ID: strconv.Itoa(i), Cause: strconv.Itoa(i - i%7), Source: "s"})
		in.line(process.Line{Function: "f", Text: "x"})
	}
	b := in.drain()
	require.LessOrEqual(t, len(b.events), mostWaiting)
	require.LessOrEqual(t, len(b.lines), mostWaiting)
	require.Equal(t, 6*mostWaiting-len(b.events)-len(b.lines), b.skipped, "dropped lines must be counted")
	for range 3 {
		m.receive(b)
	}
	require.LessOrEqual(t, m.flow.hops, mostHops)
	require.LessOrEqual(t, len(m.flow.events), mostHops)
	require.LessOrEqual(t, len(m.flow.byID), mostHops)
	require.LessOrEqual(t, len(m.lines), mostLines)
	require.Contains(t, m.view(), "not shown")
}

func TestScrolledLogsStayInPlace(t *testing.T) {
	t.Parallel()
	m := modelOf(t, 80, 24, batch{})
	for i := range 50 {
		m.receive(batch{lines: []process.Line{{Function: "f", Text: fmt.Sprintf("line %d.", i)}}})
	}
	m.setFocus(paneLogs)
	m.press("pgup")
	before := m.view()
	require.NotContains(t, before, "line 49.")
	m.receive(batch{lines: []process.Line{{Function: "f", Text: "line 50."}}})
	require.Equal(t, body(before), body(m.view()))
	m.press("end")
	require.Contains(t, m.view(), "line 50.")
}

// body returns a screen without the titles that show how much is below.
func body(screen string) string {
	var kept []string
	for line := range strings.SplitSeq(screen, "\n") {
		if !strings.Contains(line, "below") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// hopLines returns each kept hop as "depth id subscription kind".
func hopLines(f *flow) string {
	var lines []string
	f.each(func(h *hop) bool {
		lines = append([]string{fmt.Sprintf("%d %s %s %s", h.event.depth, h.event.id, h.last.Subscription, h.last.Kind)}, lines...)
		return true
	})
	return strings.Join(lines, "\n")
}

func TestEventsAreShownBelowTheirCauses(t *testing.T) {
	t.Parallel()
	stored := func(id, cause string) journal.Record {
		return journal.Record{Kind: journal.Stored, ID: id, Cause: cause}
	}
	to := func(id, subscription string, kind journal.Kind) journal.Record {
		return journal.Record{Kind: kind, ID: id, Subscription: subscription, Attempt: 1}
	}
	tests := map[string]struct {
		records []journal.Record
		want    []string
	}{
		"a delivery takes the line of the stored event": {
			records: []journal.Record{stored("a", ""), to("a", "x", journal.Delivered)},
			want:    []string{"0 a x delivered"},
		},
		"each Subscription has a line": {
			records: []journal.Record{stored("a", ""), to("a", "x", journal.Delivered), to("a", "y", journal.Retry)},
			want:    []string{"0 a x delivered", "0 a y retry"},
		},
		"attempts of one delivery share a line": {
			records: []journal.Record{stored("a", ""), to("a", "x", journal.Retry), to("a", "x", journal.Retry), to("a", "x", journal.Delivered)},
			want:    []string{"0 a x delivered"},
		},
		"concurrent chains stay apart": {
			records: []journal.Record{stored("a", ""), stored("b", ""), stored("a1", "a"), stored("b1", "b"), stored("a2", "a1")},
			want:    []string{"0 a  stored", "1 a1  stored", "2 a2  stored", "0 b  stored", "1 b1  stored"},
		},
		"siblings stand in the order in which they came": {
			records: []journal.Record{stored("a", ""), stored("a1", "a"), stored("a1x", "a1"), stored("a2", "a")},
			want:    []string{"0 a  stored", "1 a1  stored", "2 a1x  stored", "1 a2  stored"},
		},
		"a second Subscription of the cause comes before effects of the first": {
			records: []journal.Record{stored("a", ""), stored("a1", "a"), to("a", "x", journal.Delivered), to("a", "y", journal.Delivered)},
			want:    []string{"0 a x delivered", "0 a y delivered", "1 a1  stored"},
		},
		"an event without a known cause begins a chain": {
			records: []journal.Record{stored("b", "a")},
			want:    []string{"0 b  stored"},
		},
		"an event that is published again does not hide its delivery": {
			records: []journal.Record{stored("a", ""), to("a", "x", journal.Delivered), stored("a", "")},
			want:    []string{"0 a x delivered"},
		},
		"a dead letter on its way to its own sink is another hop": {
			records: []journal.Record{
				stored("a", ""), to("a", "x", journal.DeadLettered),
				{Kind: journal.Delivered, ID: "a", Subscription: "x", DeadLetter: true},
			},
			want: []string{"0 a x deadlettered", "0 a x delivered"},
		},
		"an event that causes itself is not lost": {
			records: []journal.Record{stored("a", "a"), stored("a", "a")},
			want:    []string{"0 a  stored"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlow()
			for _, r := range tc.records {
				f.add(r)
			}
			require.Equal(t, strings.Join(tc.want, "\n"), hopLines(f))
		})
	}
}

func TestTheOldestChainsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFlow()
	for i := range mostHops {
		f.add(journal.Record{Kind: journal.Stored, ID: strconv.Itoa(i)})
		f.add(journal.Record{Kind: journal.Stored, ID: strconv.Itoa(i) + ".child", Cause: strconv.Itoa(i)})
	}
	require.LessOrEqual(t, f.hops, mostHops)
	require.Len(t, f.events, f.hops)
	require.NotContains(t, f.events, eventKey{id: "0"})
	require.Contains(t, f.events, eventKey{id: strconv.Itoa(mostHops-1) + ".child"})
}

func TestOneEndlessChainIsBoundedToo(t *testing.T) {
	t.Parallel()
	f := newFlow()
	for i := range 2 * mostHops {
		f.add(journal.Record{Kind: journal.Stored, ID: strconv.Itoa(i), Cause: strconv.Itoa(i - 1)})
	}
	require.LessOrEqual(t, f.hops, mostHops)
	require.Len(t, f.chains, 1)
	require.Len(t, f.events, f.hops)
}
