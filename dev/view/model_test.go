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
		"clearing the events keeps what was counted": {
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
		"help comes with a question mark and goes with any key": {
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

func TestKeysAskForWhatTheModelCannotDo(t *testing.T) {
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

func TestDeadLettersGoWhenTheyAreRedrivenOrPurged(t *testing.T) {
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

func TestTableShowsWhatAFunctionWaitsFor(t *testing.T) {
	t.Parallel()
	fn := functionOf("orders", "pricing", runner.Preparing, "")
	fn.Doing, fn.DoingFor = "installing the dependencies", 12*time.Second
	screen := modelOf(t, 120, 40, batch{state: &State{Functions: []Function{fn}}}).view()
	require.Regexp(t, `pricing +◌ preparing .*\n +installing the dependencies \(12 s\)`, screen)
}

func TestNothingThatIsShownControlsTheTerminal(t *testing.T) {
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
	require.Equal(t, 6*mostWaiting-len(b.events)-len(b.lines), b.skipped, "what is left out is counted")
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

// body is a screen without the titles that show how much is below.
func body(screen string) string {
	var kept []string
	for line := range strings.SplitSeq(screen, "\n") {
		if !strings.Contains(line, "below") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
