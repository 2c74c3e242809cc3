package memory

import (
	"fmt"
	"strings"
	"time"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/routing"
)

const source = "bench"

// head begins a request to publish, line by line.
func head(lines ...string) string {
	return "POST /publish HTTP/1.1\r\nHost: bridge\r\n" + strings.Join(lines, "\r\n") + "\r\n"
}

func sized(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }

// binary begins an event in binary mode.
func binary(id, contentType string) string {
	return head("Ce-Specversion: 1.0", "Ce-Id: "+id, "Ce-Source: "+source, "Ce-Type: "+eventType, "Content-Type: "+contentType)
}

const batch = "Content-Type: application/cloudevents-batch+json"

// publisherShapes are requests of publishers at the bounds: as large, as many and as slow as allowed, and beyond that.
func publisherShapes() []shape {
	return []shape{
		{name: "connections without a request", connections: 8000},
		{name: "headers of tiny lines, without an end", connections: 8000, request: head(tinyLines(19 << 10))},
		{name: "as many header lines as may be", connections: 8000, request: head(tinyLines(120 * 7))},
		{name: "one long header line, without an end", connections: 8000, request: head("Note: " + strings.Repeat("x", 19<<10))},
		{name: "bodies that are announced", connections: 4000, request: head(batch) + "Content-Length: 1048576\r\n\r\n"},
		{name: "bodies without their last byte", connections: 512, request: head(batch) + "Content-Length: 1048576\r\n\r\n" + strings.Repeat(" ", 1<<20-1)},
		{name: "chunks without an end", connections: 512, request: head(batch, "Transfer-Encoding: chunked") + "\r\nfffff\r\n" + strings.Repeat(" ", 1<<20-1)},
		{name: "trailers of tiny lines", connections: 512, request: binary("trailer", "text/plain") + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n" + tinyLines(3<<10) + "\r\n"},
		{name: "unread answers", connections: 4000, request: binary("unread", "text/plain") + sized("x"), behaviour: ignoresAnswers},
		{name: "batches of extensions", connections: 128, request: head(batch) + sized(batchOf(`,"e":`+extensions(64)))},
		{name: "batches of too many extensions", connections: 128, request: head(batch) + sized(batchOf(`,"e":`+extensions(3000)))},
		{name: "batches that fail, with ids to quote", connections: 512, request: head(batch) + sized(batchOf(`,"id":"`+strings.Repeat("<", 3000)+`","type":""`)), behaviour: ignoresAnswers},
		{name: "text that is six times as large in JSON", connections: 1024, request: binary("text", "text/plain") + sized(strings.Repeat("\x01", 60<<10))},
		{name: "bytes that become base64", connections: 1024, request: binary("bytes", "application/octet-stream") + sized(strings.Repeat("\xff", 60<<10))},
		{name: "legacy events", connections: 1024, request: "POST /shop/v1/events HTTP/1.1\r\nHost: bridge\r\n" + sized(`{"event-type":"a.b","event-type-version":"v1",`+
			`"event-time":"2026-01-02T03:04:05Z","data":"`+strings.Repeat("x", 60<<10)+`"}`)},
		{name: "a journal of long texts", connections: 64, request: head(batch) + sized(batchOf(longTexts()))},
		{
			name: "forged tokens of clients that disconnect", connections: 2000, behaviour: disconnects, reviewTime: time.Second, flags: withTokens,
			request: binary("token", "text/plain") + "Authorization: Bearer {n}" + strings.Repeat("x", 7<<10) + "\r\n" + sized("x"),
		},
	}
}

// withTokens has bridges ask for a token.
var withTokens = []string{`--access={"publish":{"rules":[{"serviceAccounts":["shop/*"]}]}}`}

// longTexts are attributes of the largest size that a journal keeps and a subject can hold.
func longTexts() string {
	const subjectSlack = 8
	var members strings.Builder
	for _, name := range []string{"id", "source", "type", "rousecause"} {
		fmt.Fprintf(&members, `,"%s":"%s"`, name, strings.Repeat("x", journal.MaxText-subjectSlack))
	}
	return members.String()
}

// tinyLines are different headers in about so many bytes.
func tinyLines(size int) string {
	var lines strings.Builder
	for i := 0; lines.Len() < size; i++ {
		fmt.Fprintf(&lines, "h%x:\r\n", i)
	}
	return lines.String()
}

// batchOf is a full batch of events that have more than others.
func batchOf(more string) string {
	const events, largest = 256, 1 << 20
	event := `{"specversion":"1.0","id":"1","source":"` + source + `","type":"` + eventType + `"` + more + "}"
	return "[" + strings.Repeat(event+",", min(events, largest/(len(event)+1))-1) + event + "]"
}

// extensions are the value of one, and others behind it.
func extensions(n int) string {
	var members strings.Builder
	members.WriteString("1")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&members, `,"e%d":1`, i)
	}
	return members.String()
}

// tenantShapes are Subscriptions that ask for a million events in flight, and whose sinks answer what is worst for a bridge.
func tenantShapes() []shape {
	small, large := strings.Repeat("x", 100), strings.Repeat("x", 60<<10)
	list := `{"list":[` + strings.TrimSuffix(strings.Repeat("1,", 17<<10), ",") + "]}"
	return []shape{
		{name: "large events, a million in flight", tenant: tenant{subscriptions: 4, events: 2000, data: large, answer: hangs}},
		{name: "the same of 20 namespaces", tenant: tenant{subscriptions: 40, namespaces: 20, events: 1000, data: large, answer: hangs}},
		{name: "small events, a million in flight", tenant: tenant{subscriptions: 40, namespaces: 20, events: 2000, data: small, answer: hangs}},
		{name: "answers with headers of 1 MiB", tenant: tenant{subscriptions: 40, namespaces: 20, events: 2000, data: small, answer: "long headers"}},
		{name: "answers with long headers, without an end", tenant: tenant{subscriptions: 40, namespaces: 20, events: 2000, data: small, answer: "headers"}},
		{name: "answers of tiny lines, without an end", tenant: tenant{subscriptions: 40, namespaces: 20, events: 2000, data: small, answer: "tiny lines"}},
		{name: "the same to large events", tenant: tenant{subscriptions: 40, namespaces: 20, events: 2000, data: large, answer: "tiny lines"}},
		{name: "answers of 100 MiB", tenant: tenant{subscriptions: 40, namespaces: 20, events: 1000, data: small, answer: "100 MiB"}},
		{name: "answers that trickle", tenant: tenant{subscriptions: 40, namespaces: 20, events: 2000, data: small, answer: "trickles"}},
		{name: "large replies", tenant: tenant{subscriptions: 40, namespaces: 20, events: 1000, data: small, answer: "reply"}},
		{name: "large replies that trickle", tenant: tenant{subscriptions: 40, namespaces: 20, events: 1000, data: small, answer: "slow reply"}},
		{name: "replies of tiny extensions", tenant: tenant{subscriptions: 40, namespaces: 20, events: 1000, data: small, answer: "extensions"}},
		{name: "replies six times as large in JSON", tenant: tenant{subscriptions: 40, namespaces: 20, events: 1000, data: small, answer: "growing reply"}},
		{name: "certificates without an end", tenant: tenant{
			subscriptions: 40, namespaces: 20, events: 2000, data: small, answer: certified, change: overTLS,
		}},
		{name: "large retries, all due at once", tenant: tenant{subscriptions: 4, events: 1000, data: large, answer: "later"}},
		{name: "large dead letters, and their sink hangs", tenant: tenant{
			subscriptions: 8, namespaces: 4, events: 500, data: large, answer: rejects, change: deadLettersHang,
		}},
		{name: "large events in order, taken over", tenant: tenant{
			subscriptions: 20, namespaces: 4, events: 500, data: large, answer: hangs, change: inOrder, takeover: true,
		}},
		{name: "costly filters on lists of 34 KiB", tenant: tenant{
			subscriptions: 40, namespaces: 20, events: 500, data: list, answer: takes,
			change: filteredBy("data.list.all(a, data.list.all(b, data.list.all(c, a == b)))"),
		}},
		{name: "200 busy Subscriptions", tenant: tenant{subscriptions: 200, namespaces: 40, events: 500, data: large, answer: takes}},
		{name: "1,000 Subscriptions with long filters", tenant: tenant{
			subscriptions: 1000, namespaces: 40, events: 10, data: small, answer: takes, change: filteredBy(longExpression()),
		}},
	}
}

// routes are those of a tenant's Subscriptions.
func (t tenant) routes() []routing.Route {
	routes := make([]routing.Route, t.subscriptions)
	for i := range routes {
		namespace := fmt.Sprintf("tenant-%d", i%max(t.namespaces, 1))
		route := rig.Route(namespace, fmt.Sprintf("hostile-%d", i), source, tenantType, eventingv1alpha2.LargestMaxInFlight)
		route.Sink += answerPath(t.answer)
		if t.change != nil {
			route = t.change(route)
		}
		routes[i] = route
	}
	return routes
}

func overTLS(route routing.Route) routing.Route {
	route.Sink = strings.Replace(route.Sink, "http://", "https://", 1)
	return route
}

func deadLettersHang(route routing.Route) routing.Route {
	return rig.WithDeadLetters(route, strings.Replace(route.Sink, answerPath(rejects), answerPath(hangs), 1))
}

func inOrder(route routing.Route) routing.Route {
	route.Delivery.OrderedBy = "id"
	return route
}

func filteredBy(expression string) func(routing.Route) routing.Route {
	return func(route routing.Route) routing.Route {
		route.Filter = &eventingv1alpha2.Filter{CEL: expression}
		route.Delivery.Timeout = time.Minute
		return route
	}
}

// longExpression is as long as one may be.
func longExpression() string {
	const longest = 4096
	var expression strings.Builder
	expression.WriteString("event.id != 'a'")
	for i := 0; expression.Len() < longest-40; i++ {
		fmt.Fprintf(&expression, " && event.id != 'not-%d'", i)
	}
	return expression.String()
}

// adminShapes are requests for the admin API and for metrics, whose answers the clients do not read.
func adminShapes() []shape {
	// Large events that become dead letters, and nearly fill the stream of those.
	deadLetters := tenant{subscriptions: 1, events: 150, data: strings.Repeat("x", 600<<10), answer: rejects}
	return []shape{
		{name: "lists of dead letters", connections: 1000, to: administering, behaviour: ignoresAnswers, request: admin("GET", "deadletters?limit=1000", ""), tenant: deadLetters},
		{name: "dead letters, one by one", connections: 1000, to: administering, request: admin("GET", "deadletters/7", ""), tenant: deadLetters},
		{name: "redrives of large dead letters", connections: 1000, to: administering, request: admin("POST", "deadletters/redrive", `{"all":true}`), tenant: deadLetters},
		{name: "what happened to events", connections: 1000, to: administering, behaviour: ignoresAnswers, request: admin("GET", "events", ""), tenant: deadLetters},
		{name: "what happens to events", connections: 1000, to: administering, behaviour: ignoresAnswers, request: admin("GET", "events?follow=true", ""), tenant: deadLetters},
		{name: "metrics of 1,000 Subscriptions", connections: 1000, to: measuring, behaviour: ignoresAnswers, request: "GET / HTTP/1.1\r\nHost: bridge\r\n\r\n", tenant: tenant{
			subscriptions: 1000, namespaces: 40, events: 5, data: "x", answer: takes,
		}},
	}
}

func admin(method, path, body string) string {
	return method + " /v1/" + path + " HTTP/1.1\r\nHost: bridge\r\nAuthorization: Bearer " + rig.AdminToken + "\r\n" + sized(body)
}
