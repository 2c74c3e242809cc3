package dispatch

import (
	"errors"
	"net/http"
	"time"
)

// Outcome is how a message was settled.
type Outcome string

// The three ways to settle a message.
const (
	Ack    Outcome = "ack"    // delivered
	Retry  Outcome = "retry"  // another attempt later
	Reject Outcome = "reject" // dead letter, no more attempts
)

// verdict is what one attempt says about the event and its sink.
type verdict int

const (
	delivered   verdict = iota // the sink took it
	failed                     // the sink failed, a later attempt may succeed
	gone                       // the sink was not reached, it is scaled down or restarts
	interrupted                // this process is stopping
	refused                    // the sink says that it will never take this event
	undecodable                // the stored message is no event
	unsendable                 // the event does not fit into a request
)

// Reasons of dead letters. They are label values, so there are few of them.
const (
	reasonRefused     = "sink refused the event"
	reasonUndecodable = "message is not a CloudEvent"
	reasonUnsendable  = "event cannot be sent over HTTP"
	reasonExhausted   = "all attempts failed"
)

// judge reads a sink's answer.
func judge(answer Answer, err error) verdict {
	switch {
	case errors.Is(err, ErrSinkGone):
		return gone
	case errors.Is(err, ErrUnsendable):
		return unsendable
	case err != nil:
		return failed
	case answer.Status >= 200 && answer.Status < 300:
		return delivered
	case answer.Status >= 400 && answer.Status < 500 && !temporary(answer.Status):
		return refused
	default:
		return failed // 5xx, and also 1xx and 3xx: a redirect is not followed, it would drop the body
	}
}

// temporary names the answers of the 4xx range that speak of the moment and not of the event.
func temporary(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
}

// policy holds the numbers behind a decision.
type policy struct {
	maxAttempts int
	backoff     Backoff
	shortDelay  time.Duration // for attempts that never reached the sink
}

// decision is how a message is to be settled.
type decision struct {
	outcome Outcome
	delay   time.Duration // of a Retry
	reason  string        // of a Reject
}

// decide turns a verdict into a settlement. An attempt that did not reach the sink is never the one that
// ends the event: it says nothing about either.
func (p policy) decide(v verdict, attempt int, asked time.Duration, random float64) decision {
	switch v {
	case delivered:
		return decision{outcome: Ack}
	case gone, interrupted:
		return decision{outcome: Retry, delay: p.shortDelay}
	case refused:
		return decision{outcome: Reject, reason: reasonRefused}
	case undecodable:
		return decision{outcome: Reject, reason: reasonUndecodable}
	case unsendable:
		return decision{outcome: Reject, reason: reasonUnsendable}
	default:
		if attempt >= p.maxAttempts {
			return decision{outcome: Reject, reason: reasonExhausted}
		}
		return decision{outcome: Retry, delay: p.backoff.Delay(attempt, asked, random)}
	}
}
