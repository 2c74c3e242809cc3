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

// The ways to settle a message.
const (
	Ack    Outcome = "ack"    // delivered
	Skip   Outcome = "skip"   // the filter leaves it out
	Retry  Outcome = "retry"  // another attempt later
	Return Outcome = "return" // the same attempt later: it has not reached the sink
	Reject Outcome = "reject" // dead letter, no more attempts
)

// result is what one attempt says about the event and its sink.
type result int

const (
	delivered   result = iota // the sink took it
	unwanted                  // the filter leaves it out
	failed                    // the sink failed with this event, a later attempt may succeed
	strained                  // the sink can take no event now, or gave no answer
	gone                      // the sink was not reached, it is scaled down or restarts
	interrupted               // this process is stopping
	refused                   // the sink says that it will never take this event
	undecodable               // the stored message is no event
	unsendable                // the event does not fit into a request
	looping                   // the chain of events is too long
	exhausted                 // the chain of events is too large
	wanted                    // the filter lets it through; the sink is yet to be asked
	overLimit                 // it is too old, or one of too many, and was not sent
)

// reasonOf says why an attempt, if it has to be repeated, has to be.
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

// judge reads a sink's answer.
func judge(answer Answer, err error) result {
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

// struggling names the answers that speak of the sink and not of the event.
func struggling(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}

// now is the policy of the moment.
func (d *Dispatcher) now() policy {
	p := d.policy
	if d.Retries != nil {
		p.maxAttempts, p.backoff = d.Retries()
	}
	return p
}

// policy holds the numbers behind a decision.
type policy struct {
	maxAttempts int
	endless     bool // nothing is rejected
	backoff     Backoff
	shortDelay  time.Duration // for attempts that never reached the sink
}

// decision is how a message is to be settled.
type decision struct {
	outcome Outcome
	delay   time.Duration  // of a Retry
	reason  failure.Reason // of a Reject, or of a Retry that was to be one
}

// decide turns a result into a settlement. An attempt that did not reach the sink never ends the event: it says
// nothing about either.
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

// end is why an attempt is the last one, empty if it is not.
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

// Growth is how the wait changes from attempt to attempt.
type Growth int

// The growths: the wait doubles, grows by Base, or stays.
const (
	Exponential Growth = iota
	Linear
	Constant
)

// Backoff computes how long to wait before an attempt is repeated: Base grows with each attempt up to
// Max, spread by +-Jitter (a fraction) so that a recovering sink is not met by a wave.
type Backoff struct {
	Growth Growth
	Base   time.Duration
	Max    time.Duration
	Jitter float64
}

// Delay is the wait after the given attempt (from 1). The spread comes from random, in [0, 1). A longer
// wait that the sink asked for is honoured, up to Max, and spread upwards only.
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
