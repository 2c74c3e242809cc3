package trace

import (
	"strconv"
	"time"
)

// Node is an event and what came of it.
type Node struct {
	ID     string    `json:"id"`
	Source string    `json:"source,omitempty"`
	Type   string    `json:"type,omitempty"` // empty for an event that is only named as a cause
	Trace  string    `json:"trace,omitempty"`
	Stored time.Time `json:"stored,omitzero"` // zero where that is not known
	Asked  bool      `json:"asked,omitempty"` // it is the one that the tree was asked for
	// ByTrace is true where no cause is known: it is placed by its trace and its time.
	ByTrace    bool       `json:"byTrace,omitempty"`
	Deliveries []Delivery `json:"deliveries,omitempty"`
	// Children came of the event, of none or of more than one of its deliveries as far as is known.
	Children []Node `json:"children,omitempty"`
}

// State is where a delivery stands.
type State string

// The states.
const (
	Delivered    State = "delivered"
	Filtered     State = "filtered"
	DeadLettered State = "deadlettered"
	Retrying     State = "retrying" // pending: another attempt comes
	Redriven     State = "redriven" // pending: the dead letter is delivered again
)

// Pending reports whether there is more to come.
func (s State) Pending() bool { return s == Retrying || s == Redriven }

// Delivery is what became of an event for one Subscription.
type Delivery struct {
	Namespace    string `json:"namespace"`
	Subscription string `json:"subscription"`
	Sink         string `json:"sink,omitempty"`
	DeadLetter   bool   `json:"deadLetter,omitempty"` // the event's dead letter, to the sink for those

	State    State     `json:"state"`
	Reason   string    `json:"reason,omitempty"`  // a code
	Message  string    `json:"message,omitempty"` // the reason as a sentence
	Due      time.Time `json:"due,omitzero"`      // of the next attempt
	Waited   Duration  `json:"waited,omitempty"`  // from stored to the first attempt
	Attempts []Attempt `json:"attempts,omitempty"`
	Children []Node    `json:"children,omitempty"`
}

// Attempt is one call of the sink, or a redrive.
type Attempt struct {
	Number   int       `json:"number,omitempty"` // 0 of a redrive
	Began    time.Time `json:"began,omitzero"`
	Took     Duration  `json:"took,omitempty"`
	Status   int       `json:"status,omitempty"`
	Reason   string    `json:"reason,omitempty"`  // why it failed: a code
	Message  string    `json:"message,omitempty"` // the reason as a sentence
	Due      time.Time `json:"due,omitzero"`      // when the next one was to come
	Redriven bool      `json:"redriven,omitempty"`
}

// Duration is written as seconds.
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(d).Seconds(), 'f', -1, 64), nil
}
