package main

import (
	"fmt"
	"strings"
	"time"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/routing"
)

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
