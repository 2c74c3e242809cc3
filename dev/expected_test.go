package dev

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/output"
)

const greets = `module.exports.main = async event => {
  if (!event.data.id) { event.setResponseStatus(400); return 'no id' }
  await event.emitCloudEvent('order.greeted', 'greeter', {id: event.data.id, text: 'hello'})
}`

func TestARunIsComparedWithTheFileOfItsExpectations(t *testing.T) {
	t.Parallel()
	const publish = "publish:\n- {type: order.received, source: shop, id: 'a', data: {id: '7'}}\n"
	for name, tc := range map[string]struct {
		expected string
		printed  string
		last     string // empty: the run succeeds
	}{
		"as expected": {
			publish + "- {type: order.received, source: shop, id: 'b', data: {}}\n" +
				"emitted:\n- {type: order.greeted, source: greeter, data: {id: '7'}}\n" +
				"replies:\n- {id: a, function: greeter, status: 200}\n- {id: b, status: 400}\n" +
				"deadLetters:\n- {id: b, function: orders/greeter, status: 400}\n",
			"expect.yaml: everything is as expected", "",
		},
		"another event": {
			publish + "emitted:\n- type: order.greeted\n  data: {id: '8'}\n",
			"expect.yaml:4: emitted order.greeted\n    data.id: expected \"8\", got \"7\"\n", "1 difference from ",
		},
		"a dead letter": {
			"publish:\n- {type: order.received, source: shop, id: 'b', data: {}}\nemitted: []\n",
			"dead letter order.received b from shop at orders/greeter\n    not expected, with status 400\n", "1 difference from ",
		},
		"an emitted event without a Subscription that is not compared": {
			publish, "", "1 event was wanted by no Subscription: order.greeted ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory, out := t.TempDir(), &output.Buffer{}
			write(t, directory, "fn.yaml", greeter(greets))
			write(t, directory, "expect.yaml", tc.expected)
			o := DefaultOptions()
			o.Directory, o.State, o.Out, o.Once, o.Cooldown = directory, t.TempDir(), out, true, time.Second
			o.Expect = filepath.Join(directory, "expect.yaml")
			err := Run(t.Context(), o)
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			require.Contains(t, out.String(), tc.printed)
			if tc.last == "" {
				require.NoError(t, err, out)
				require.Contains(t, lines[len(lines)-1], "run ok: events=3 lost=0 ")
				return
			}
			require.ErrorIs(t, err, ErrFailed)
			require.Contains(t, lines[len(lines)-1], "run failed: "+tc.last)
		})
	}
}

func TestSamplesDoWhatTheirFilesExpect(t *testing.T) {
	t.Parallel()
	for _, sample := range []string{orders, "../samples/tickets"} {
		t.Run(filepath.Base(sample), func(t *testing.T) {
			t.Parallel()
			out := &output.Buffer{}
			o := DefaultOptions()
			o.Directory, o.State, o.Out, o.Once, o.Expect = sample, t.TempDir(), out, true, sample+"/expect.yaml"
			require.NoError(t, Run(t.Context(), o), out)
			require.Contains(t, out.String(), "expect.yaml: everything is as expected\n")
		})
	}
}

func TestEmissionsLeaveOutTheEventsOfTheRunAndRepeats(t *testing.T) {
	t.Parallel()
	own, other := cloudevent.Event{Source: "shop", ID: "1"}, cloudevent.Event{Source: "greeter", ID: "1", Data: []byte("x")}
	e := newEmissions([]cloudevent.Event{own})
	require.Zero(t, e.count())
	for _, ev := range []cloudevent.Event{own, other, other, own} {
		e.add(ev)
	}
	require.Equal(t, 2, e.count())
	events, complete := e.all()
	require.Equal(t, []cloudevent.Event{other}, events)
	require.True(t, complete)

	e.add(cloudevent.Event{Source: "greeter", ID: "2", Data: make([]byte, maxEmitted)})
	events, complete = e.all()
	require.Equal(t, []cloudevent.Event{other}, events)
	require.False(t, complete)
}
