package main

import (
	"strings"

	"github.com/rouse-run/rouse/e2e/rig"
)

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
