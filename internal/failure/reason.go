package failure

import (
	"fmt"
	"slices"
	"strings"
)

// Reason is a failure's code, in the form of a condition's reason.
type Reason string

// Reasons why an event becomes a dead letter.
const (
	SinkRejected      Reason = "SinkRejected"      // a 4xx that a retry cannot change
	AttemptsExhausted Reason = "AttemptsExhausted" // the last attempt failed too
	NotACloudEvent    Reason = "NotACloudEvent"    // the stored message cannot be read
	NotSendable       Reason = "NotSendable"       // the event does not fit into a request
	TooManyReplies    Reason = "TooManyReplies"    // the chain of replies is too long
	TooManyCaused     Reason = "TooManyCaused"     // the chain with all its branches has reached the maximum number of events
	Expired           Reason = "Expired"           // it exceeded the maximum age of its Subscription
	QuotaExceeded     Reason = "QuotaExceeded"     // its namespace has exceeded its share of the stored events
	// Unknown stands for a reason in a dead letter of another client.
	Unknown Reason = "Unknown"
)

// Reasons why an attempt is repeated.
const (
	SinkFailed          Reason = "SinkFailed"
	SinkOverloaded      Reason = "SinkOverloaded"
	NoAnswer            Reason = "NoAnswer"
	AnswerTimeout       Reason = "AnswerTimeout"
	DeliveryPanicked    Reason = "DeliveryPanicked"
	ReplyNotStored      Reason = "ReplyNotStored"
	DeadLetterNotStored Reason = "DeadLetterNotStored"
)

var messages = map[Reason]string{
	SinkRejected:      "sink refused the event",
	AttemptsExhausted: "all attempts failed",
	NotACloudEvent:    "message is not a CloudEvent",
	NotSendable:       "event cannot be sent over HTTP",
	TooManyReplies:    "too many replies in a chain",
	TooManyCaused:     "one event caused too many others",
	Expired:           "event is older than delivery.ttl",
	QuotaExceeded:     "namespace has more events stored than its share",
	Unknown:           "the reason is not known",

	SinkFailed:          "sink failed with the event",
	SinkOverloaded:      "sink can take no event now",
	NoAnswer:            "no answer from the sink",
	AnswerTimeout:       "no answer from the sink in time",
	DeliveryPanicked:    "delivery panicked",
	ReplyNotStored:      "the sink's reply could not be stored",
	DeadLetterNotStored: "dead letter could not be stored",
}

// Message returns the sentence for users, or an empty string for an unknown code.
func (r Reason) Message() string { return messages[r] }

// DeadLetters returns all reasons that a dead letter may have.
func DeadLetters() []Reason {
	return []Reason{SinkRejected, AttemptsExhausted, NotACloudEvent, NotSendable, TooManyReplies, TooManyCaused, Expired, QuotaExceeded, Unknown}
}

// ParseDeadLetter parses the reason of a user or a program. The error lists the valid reasons.
func ParseDeadLetter(code string) (Reason, error) {
	if known := DeadLetters(); !slices.Contains(known, Reason(code)) {
		return "", fmt.Errorf("%.100q is not a reason of dead letters: use one of %s", code, join(known))
	}
	return Reason(code), nil
}

func join(reasons []Reason) string {
	names := make([]string, len(reasons))
	for i, r := range reasons {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

// sentences maps the texts that dead letters contained before reasons were codes. They are stored, so they never
// change.
var sentences = map[string]Reason{
	"sink refused the event":         SinkRejected,
	"all attempts failed":            AttemptsExhausted,
	"message is not a CloudEvent":    NotACloudEvent,
	"event cannot be sent over HTTP": NotSendable,
	"too many replies in a chain":    TooManyReplies,
}

// OfSentence returns the reason that corresponds to a stored sentence, and its message.
func OfSentence(sentence string) (Reason, string) {
	if r, known := sentences[sentence]; known {
		return r, r.Message()
	}
	if sentence == "" {
		return Unknown, Unknown.Message()
	}
	return Unknown, sentence
}
