package journal

import (
	"encoding/json"
	"fmt"
	"time"
)

// Kind is what happened.
type Kind string

// The kinds.
const (
	Stored       Kind = "stored"       // the stream has the event; published again within its window for duplicates, again
	Delivered    Kind = "delivered"    // the sink took it
	Retry        Kind = "retry"        // the attempt failed, another comes at Due
	DeadLettered Kind = "deadlettered" // it is delivered no more
	Filtered     Kind = "filtered"     // the Subscription's filter leaves it out
	Redriven     Kind = "redriven"     // a dead letter went back to its Subscription
	Skipped      Kind = "skipped"      // a follower was too slow: Count records are left out here
)

// Kinds are all that a record may have.
func Kinds() []Kind {
	return []Kind{Stored, Delivered, Retry, DeadLettered, Filtered, Redriven, Skipped}
}

// Record is one thing that happened to an event.
type Record struct {
	Time time.Time `json:"time"` // when it had happened
	Kind Kind      `json:"kind"`

	ID     string `json:"id,omitempty"` // of the event; empty if its message is none
	Source string `json:"source,omitempty"`
	Type   string `json:"type,omitempty"`
	Cause  string `json:"cause,omitempty"` // id of the event whose handling published this one
	Trace  string `json:"trace,omitempty"` // W3C trace id

	// Of deliveries.
	Namespace    string     `json:"namespace,omitempty"`
	Subscription string     `json:"subscription,omitempty"`
	Sink         string     `json:"sink,omitempty"`       // namespace/name of the Service, or the host
	DeadLetter   bool       `json:"deadLetter,omitempty"` // what is delivered is a dead letter, to the sink for those
	Stored       time.Time  `json:"stored,omitzero"`      // when the stream took the event first
	Attempt      int        `json:"attempt,omitempty"`
	Status       int        `json:"status,omitempty"`  // of the sink's answer; 0 without one
	Reason       string     `json:"reason,omitempty"`  // of a retry or a dead letter: a code of package failure
	Message      string     `json:"message,omitempty"` // the reason as a sentence
	Due          *time.Time `json:"due,omitempty"`     // of a retry

	Began time.Time     `json:"began,omitzero"` // the publish or the attempt
	Took  time.Duration `json:"-"`              // the same; seconds in JSON

	Count int `json:"count,omitempty"` // of records that are left out
}

// plain is a Record without methods.
type plain Record

type written struct {
	plain

	Took float64 `json:"took,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r Record) MarshalJSON() ([]byte, error) {
	body, err := json.Marshal(written{plain(r), r.Took.Seconds()})
	if err != nil {
		return nil, fmt.Errorf("write record: %w", err)
	}
	return body, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Record) UnmarshalJSON(body []byte) error {
	var read written
	if err := json.Unmarshal(body, &read); err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	*r = Record(read.plain)
	r.Took = time.Duration(read.Took * float64(time.Second))
	return nil
}
