package view

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

func TestPlainPrintsALineForEachChange(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := newPrinter(plain{out: &out, location: time.UTC, now: func() time.Time { return begin(0) }}, nil)
	b := orders()
	p.state(*b.state)
	p.state(*b.state) // unchanged
	b.lines = slices.Insert(b.lines, 2, process.Line{
		Time: begin(200 * time.Millisecond), Namespace: "orders", Function: "reports", Stream: process.Rouse, Problem: true,
		Text: "SyntaxError: Unexpected token ')' at reports.yaml:12; it is started again in 1s",
	})
	for _, l := range b.lines {
		p.line(l)
	}
	for _, r := range b.events {
		p.event(r)
	}
	after := *b.state
	after.Problems = nil
	after.Functions = append([]Function{}, after.Functions[:3]...)
	woken := &after.Functions[1]
	woken.Phase, woken.Ready, woken.Desired, woken.Backlog, woken.LastWake = runner.Ready, 2, 2, 0, 301*time.Millisecond
	p.state(after)
	asleep := after // the phase first, and then the count of its last replica
	asleep.Functions = slices.Clone(after.Functions)
	asleep.Functions[0].Phase = runner.Asleep
	p.state(asleep)
	gone := asleep
	gone.Functions = slices.Clone(asleep.Functions)
	gone.Functions[0].Ready = 0
	p.state(gone)
	require.Equal(t, strings.TrimLeft(`
14:03:24.592 rouse    samples/orders: publish to http://127.0.0.1:8080/publish
14:03:24.592 rouse    admin API at http://127.0.0.1:40231
14:03:24.592 problem  warning: reports.yaml:7: Function orders/reports: spec.runtime: Unsupported value: "nodejs18" (use nodejs22)
14:03:24.592 function pricing    ready, woke in 187 ms, nodejs22, http://127.0.0.1:8081, from pricing.yaml:2
14:03:24.592 function invoicing  waking, 2 events wait, nodejs22, http://127.0.0.1:8082, from invoicing.yaml:2
14:03:24.592 function recorder   asleep, nodejs22, http://127.0.0.1:8083, from recorder.yaml:2
14:03:24.592 function reports    failing, nodejs22, http://127.0.0.1:8084, from reports.yaml:2
14:03:24.592 rouse    publish to http://127.0.0.1:8080/publish
14:03:24.792 log      pricing    priced 1001
14:03:24.792 problem  reports    SyntaxError: Unexpected token ')' at reports.yaml:12; it is started again in 1s
14:03:25.192 log      invoicing  stderr: 19 percent of 1130 is 214.7
14:03:24.592 event    order.received 1001 shop → ...: stored
14:03:24.872 event    order.received 1002 shop → ...: stored
14:03:24.872 event    order.received 1003 shop → ...: stored
14:03:24.792 event    order.priced 1001.priced pricing → ...: stored, caused by 1001
14:03:24.794 event    order.received 1001 shop → pricing: delivered 200, took 12 ms, waited 190 ms
14:03:24.895 retry    order.received 1002 shop → pricing: attempt 1: the sink answered 503, again at 14:03:28
14:03:24.906 dead     order.received 1003 shop → pricing: dead letter after 1 attempt: the sink refused it with 400: order 1003: unknown product "beer"
14:03:25.292 event    order.invoiced 1001.invoiced invoicing → ...: stored, caused by 1001.priced
14:03:25.303 event    order.priced 1001.priced pricing → invoicing: delivered 200, took 21 ms, waited 490 ms
14:03:26.501 event    order.invoiced 1001.invoiced invoicing → recorder: delivered 200, took 5 ms, waited 1.2 s
14:03:26.592 event    order.received order-1710000000000-17 shop → ...: stored
14:03:24.592 rouse    no problems any more
14:03:24.592 function invoicing  ready, 2 of 2 replicas, woke in 301 ms
14:03:24.592 function reports    gone
14:03:24.592 function pricing    asleep
`, "\n"), out.String())
}

func TestPlainPrintsTheURLsOfAPIRules(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := newPrinter(plain{out: &out, location: time.UTC, now: func() time.Time { return begin(0) }}, nil)
	at := manifest.Position{File: "apirule.yaml", Line: 2}
	served := APIRule{Namespace: "orders", Name: "shop", URL: "http://shop.localhost:8070", At: at}
	wrong := served
	wrong.URL = ""
	for _, rules := range [][]APIRule{{served}, {served}, {wrong}, {served}, nil} {
		p.state(State{APIRules: rules})
	}
	require.Equal(t, strings.TrimLeft(`
14:03:24.592 apirule  orders/shop  http://shop.localhost:8070, from apirule.yaml:2
14:03:24.592 apirule  orders/shop  not served, from apirule.yaml:2
14:03:24.592 apirule  orders/shop  http://shop.localhost:8070, from apirule.yaml:2
14:03:24.592 apirule  orders/shop  gone
`, "\n"), out.String())
}

// nobodys returns an event that no Subscription matches.
func nobodys() journal.Record {
	return journal.Record{
		Time: begin(0), Kind: journal.Stored, ID: "1", Source: "shop", Type: "order.receivd",
		Message: "no Subscription takes it; did you mean order.received from shop?",
	}
}

func TestPlainPrintsEventsWithoutSubscription(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	newPrinter(plain{out: &out, location: time.UTC}, nil).event(nobodys())
	require.Equal(t, "14:03:24.592 event    order.receivd 1 shop → nobody: "+
		"stored; no Subscription takes it; did you mean order.received from shop?\n", out.String())
}

func TestPlainEndsWhenItsOutputIsClosed(t *testing.T) {
	t.Parallel()
	broken := errors.New("no space left on device")
	reader, writer := io.Pipe()
	require.NoError(t, reader.CloseWithError(broken))
	require.ErrorIs(t, Plain(t.Context(), scripted(orders()), writer), broken)
}
