package view

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// begin is when the scripted run begins.
func begin(after time.Duration) time.Time {
	return time.Date(2024, 3, 4, 14, 3, 24, 592e6, time.UTC).Add(after)
}

func functionOf(namespace, name, phase, lastError string) Function {
	return Function{Status: runner.Status{
		Namespace: namespace, Name: name, Runtime: "nodejs22", Phase: phase, LastError: lastError,
		At: manifest.Position{File: name + ".yaml", Line: 2},
	}}
}

// orders is a run of the order chain: three Functions, one of them awake, one event through all of them, one
// that is retried and one that died, and a Function that does not start.
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
