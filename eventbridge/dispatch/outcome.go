package dispatch

import (
	"context"
	"errors"
	"math"
	"net/http"
	"os"
	"time"

	"github.com/rouse-run/rouse/internal/failure"
)

// Outcome is how a message was settled.
type Outcome string

// The outcomes of a delivery.
const (
	Ack    Outcome = "ack"    // delivered
	Skip   Outcome = "skip"   // the filter does not match
	Retry  Outcome = "retry"  // another attempt later
	Return Outcome = "return" // the same attempt later: it did not reach the sink
	Reject Outcome = "reject" // dead letter, no more attempts
)

// result is the result of one attempt.
type result int

const (
	delivered   result = iota // the sink accepted the event
	unwanted                  // the filter does not match
	failed                    // the sink failed with this event, a later attempt may succeed
	strained                  // the sink is overloaded or gave no answer
	gone                      // the sink was not reached: it is scaled down or restarts
	interrupted               // this process is stopping
	refused                   // the sink rejected the event permanently
	undecodable               // the stored message is not an event
	unsendable                // the event does not fit into a request
	looping                   // the chain of events is too long
	exhausted                 // the chain of events is too large
	wanted                    // the filter matches; the sink is to be called
	overLimit                 // too old or over the quota, and not sent
)

// reasonOf returns the reason for a retry after the attempt.
func reasonOf(answer Answer, err error) failure.Reason {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return failure.AnswerTimeout
	case err != nil:
		return failure.NoAnswer
	case struggling(answer.Status):
		return failure.SinkOverloaded
	default:
		return failure.SinkFailed
	}
}

// classify returns the result for a sink's answer.
func classify(answer Answer, err error) result {
	switch {
	case errors.Is(err, ErrSinkGone):
		return gone
	case errors.Is(err, ErrUnsendable):
		return unsendable
	case err != nil, struggling(answer.Status):
		return strained
	case answer.Status >= 200 && answer.Status < 300:
		return delivered
	case answer.Status >= 400 && answer.Status < 500 && answer.Status != http.StatusTooEarly:
		return refused
	default:
		return failed // 5xx, and also 1xx and 3xx: a redirect is not followed, it would drop the body
	}
}

// struggling reports whether a status is about the sink and not about the event.
func struggling(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}

// now returns the current policy.
func (d *Dispatcher) now() policy {
	p := d.policy
	if d.Retries != nil {
		p.maxAttempts, p.backoff = d.Retries()
	}
	return p
}

// policy holds the inputs of a decision.
type policy struct {
	maxAttempts int
	endless     bool // nothing is rejected
	backoff     Backoff
	shortDelay  time.Duration // after attempts that did not reach the sink
}

// decision is how to settle a message.
type decision struct {
	outcome Outcome
	delay   time.Duration  // of a Retry
	reason  failure.Reason // of a Reject, or of a Retry that replaces one
}

// decide turns a result into a settlement. An attempt that did not reach the sink never ends the event: it was
// inconclusive.
func (p policy) decide(v result, attempt int, asked time.Duration, random float64) decision {
	switch v {
	case delivered:
		return decision{outcome: Ack}
	case unwanted:
		return decision{outcome: Skip}
	case gone, interrupted:
		return decision{outcome: Return, delay: p.shortDelay}
	default:
		if reason := p.end(v, attempt); reason != "" && !p.endless {
			return decision{outcome: Reject, reason: reason}
		}
		return decision{outcome: Retry, delay: p.backoff.Delay(attempt, asked, random)}
	}
}

// end returns why an attempt is the last one, empty if it is not.
func (p policy) end(v result, attempt int) failure.Reason {
	switch v {
	case looping:
		return failure.TooManyReplies
	case exhausted:
		return failure.TooManyCaused
	case refused:
		return failure.SinkRejected
	case undecodable:
		return failure.NotACloudEvent
	case unsendable:
		return failure.NotSendable
	default:
		if attempt >= p.maxAttempts {
			return failure.AttemptsExhausted
		}
		return ""
	}
}

// Growth is how the wait grows from attempt to attempt.
type Growth int

// The growths: the wait doubles, grows by Base, or stays.
const (
	Exponential Growth = iota
	Linear
	Constant
)

// Backoff computes the wait before a retry: Base grows with each attempt up to Max, with +-Jitter (a fraction) so that
// a recovering sink does not get all retries at once.
type Backoff struct {
	Growth Growth
	Base   time.Duration
	Max    time.Duration
	Jitter float64
}

// Delay returns the wait after the given attempt (from 1). The jitter comes from random, in [0, 1). A longer wait that
// the sink requested is honoured, up to Max, and only lengthened by jitter.
func (b Backoff) Delay(attempt int, asked time.Duration, random float64) time.Duration {
	delay := min(b.grown(max(attempt, 1)), float64(b.Max))
	delay *= 1 + b.Jitter*(2*random-1)
	wanted := float64(asked) * (1 + b.Jitter*random)
	return time.Duration(min(max(delay, wanted), float64(b.Max)))
}

func (b Backoff) grown(attempt int) float64 {
	switch b.Growth {
	case Linear:
		return float64(b.Base) * float64(attempt)
	case Constant:
		return float64(b.Base)
	default:
		return math.Ldexp(float64(b.Base), attempt-1)
	}
}
