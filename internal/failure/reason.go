package failure

import (
	"fmt"
	"slices"
	"strings"
)

// Reason is a failure's code, in the form of a condition's reason.
type Reason string

// Why an event becomes a dead letter.
const (
	SinkRejected      Reason = "SinkRejected"      // a 4xx that no other attempt can change
	AttemptsExhausted Reason = "AttemptsExhausted" // the last attempt failed too
	NotACloudEvent    Reason = "NotACloudEvent"    // the stored message cannot be read
	NotSendable       Reason = "NotSendable"       // the event does not fit into a request
	TooManyReplies    Reason = "TooManyReplies"    // the chain of events that brought each other forth is too long
	TooManyCaused     Reason = "TooManyCaused"     // its chain, with all that branches off, has as many events as one may cause
	Expired           Reason = "Expired"           // it is older than its Subscription lets events become
	QuotaExceeded     Reason = "QuotaExceeded"     // its namespace has more events stored than is its share
	// Unknown stands for what another client gave a dead letter as its reason.
	Unknown Reason = "Unknown"
)

// Why an attempt is repeated.
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

// Message is the sentence for people, empty for a code that this version does not know.
func (r Reason) Message() string { return messages[r] }

// DeadLetters are all reasons that a dead letter may have.
func DeadLetters() []Reason {
	return []Reason{SinkRejected, AttemptsExhausted, NotACloudEvent, NotSendable, TooManyReplies, TooManyCaused, Expired, QuotaExceeded, Unknown}
}

// ParseDeadLetter reads what a person or a program asks for. The error lists the reasons that there are.
func ParseDeadLetter(code string) (Reason, error) {
	if known := DeadLetters(); !slices.Contains(known, Reason(code)) {
		return "", fmt.Errorf("%.100q is no reason of dead letters: use one of %s", code, join(known))
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

// sentences are what dead letters had for a reason before reasons were codes. They are stored, so they never change.
var sentences = map[string]Reason{
	"sink refused the event":         SinkRejected,
	"all attempts failed":            AttemptsExhausted,
	"message is not a CloudEvent":    NotACloudEvent,
	"event cannot be sent over HTTP": NotSendable,
	"too many replies in a chain":    TooManyReplies,
}

// OfSentence is the reason that a dead letter means by a sentence, and the message that goes with it.
func OfSentence(sentence string) (Reason, string) {
	if r, known := sentences[sentence]; known {
		return r, r.Message()
	}
	if sentence == "" {
		return Unknown, Unknown.Message()
	}
	return Unknown, sentence
}
