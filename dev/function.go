package dev

import (
	"github.com/rouse-run/rouse/dev/runner"
)

// Function is how one of them is, and how much waits for it.
type Function struct {
	runner.Status

	// Backlog is nil when it is not known.
	Backlog *int `json:"backlog,omitempty"`
	// Exposed are the URLs of APIRules that lead to it.
	Exposed []string `json:"exposed,omitempty"`
}

// List is the answer to /v1/functions.
type List struct {
	Functions []Function `json:"functions"`
}

// Subscriptions is the answer to /v1/subscriptions.
type Subscriptions struct {
	Subscriptions []SubscriptionStatus `json:"subscriptions"`
}

// failure is every answer that is an error.
type failure struct {
	Error string `json:"error"`
}
