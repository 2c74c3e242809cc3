package dispatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/failure"
)

func TestSinkAnswersMapToResults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		statuses []int
		err      error
		want     result
	}{
		"success":                          {statuses: []int{200, 201, 202, 204, 299}, want: delivered},
		"a failing sink":                   {statuses: []int{500, 501, 507, 599}, want: failed},
		"a sink that can take nothing":     {statuses: []int{408, 429, 502, 503, 504}, want: strained},
		"an answer of the moment":          {statuses: []int{425}, want: failed},
		"a redirect":                       {statuses: []int{301, 302, 303, 307, 308}, want: failed},
		"a protocol switch":                {statuses: []int{101}, want: failed},
		"an event that the sink refuses":   {statuses: []int{400, 401, 403, 404, 409, 410, 413, 415, 422, 499}, want: refused},
		"no answer at all":                 {statuses: []int{0}, err: errors.New("connection reset"), want: strained},
		"a timeout":                        {statuses: []int{0}, err: context.DeadlineExceeded, want: strained},
		"a sink that is gone":              {statuses: []int{0}, err: fmt.Errorf("dial: %w", ErrSinkGone), want: gone},
		"an event that fits in no request": {statuses: []int{0}, err: fmt.Errorf("write: %w", ErrUnsendable), want: unsendable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, status := range tc.statuses {
				require.Equal(t, tc.want, classify(Answer{Status: status}, tc.err), "status %d", status)
			}
		})
	}
}

func TestResultsMapToSettlements(t *testing.T) {
	t.Parallel()
	p := policy{
		maxAttempts: 3,
		backoff:     Backoff{Base: time.Second, Max: time.Minute},
		shortDelay:  time.Millisecond,
	}
	for name, tc := range map[string]struct {
		result  result
		attempt int
		asked   time.Duration
		want    decision
	}{
		"delivered":                                    {result: delivered, attempt: 1, want: decision{outcome: Ack}},
		"delivered at the last attempt":                {result: delivered, attempt: 3, want: decision{outcome: Ack}},
		"failed":                                       {result: failed, attempt: 2, want: decision{outcome: Retry, delay: 2 * time.Second}},
		"failed, and the sink asks for time":           {result: failed, attempt: 1, asked: 9 * time.Second, want: decision{outcome: Retry, delay: 9 * time.Second}},
		"failed at the last attempt":                   {result: failed, attempt: 3, want: decision{outcome: Reject, reason: failure.AttemptsExhausted}},
		"failed beyond the last attempt":               {result: failed, attempt: 9, want: decision{outcome: Reject, reason: failure.AttemptsExhausted}},
		"a sink that is gone":                          {result: gone, attempt: 1, want: decision{outcome: Return, delay: time.Millisecond}},
		"a sink that is gone ends no event":            {result: gone, attempt: 9, want: decision{outcome: Return, delay: time.Millisecond}},
		"an interruption ends no event":                {result: interrupted, attempt: 9, want: decision{outcome: Return, delay: time.Millisecond}},
		"unwanted":                                     {result: unwanted, attempt: 1, want: decision{outcome: Skip}},
		"a chain of replies that does not end":         {result: looping, attempt: 1, want: decision{outcome: Reject, reason: failure.TooManyReplies}},
		"a chain of replies that is too large":         {result: exhausted, attempt: 1, want: decision{outcome: Reject, reason: failure.TooManyCaused}},
		"refused":                                      {result: refused, attempt: 1, want: decision{outcome: Reject, reason: failure.SinkRejected}},
		"no event":                                     {result: undecodable, attempt: 1, want: decision{outcome: Reject, reason: failure.NotACloudEvent}},
		"an event that cannot be written as a request": {result: unsendable, attempt: 1, want: decision{outcome: Reject, reason: failure.NotSendable}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, p.decide(tc.result, tc.attempt, tc.asked, 0.5))
		})
		t.Run(name+", and there is no end", func(t *testing.T) {
			t.Parallel()
			endless, want := p, tc.want
			endless.endless = true
			if want.outcome == Reject {
				want = decision{outcome: Retry, delay: p.backoff.Delay(tc.attempt, tc.asked, 0.5)}
			}
			require.Equal(t, want, endless.decide(tc.result, tc.attempt, tc.asked, 0.5))
		})
	}
}

func TestDelayDoublesUpToItsMaximum(t *testing.T) {
	t.Parallel()
	backoff := Backoff{Base: 500 * time.Millisecond, Max: 5 * time.Minute, Jitter: 0.2}
	const middle, lowest, highest = 0.5, 0.0, 1.0
	for name, tc := range map[string]struct {
		attempt int
		asked   time.Duration
		random  float64
		want    time.Duration
	}{
		"first attempt":                           {attempt: 1, random: middle, want: 500 * time.Millisecond},
		"second attempt":                          {attempt: 2, random: middle, want: time.Second},
		"tenth attempt":                           {attempt: 10, random: middle, want: 256 * time.Second},
		"eleventh attempt is capped":              {attempt: 11, random: middle, want: 5 * time.Minute},
		"a huge attempt does not overflow":        {attempt: 1 << 20, random: middle, want: 5 * time.Minute},
		"an attempt of zero counts as the first":  {attempt: 0, random: middle, want: 500 * time.Millisecond},
		"jitter takes a fifth away":               {attempt: 2, random: lowest, want: 800 * time.Millisecond},
		"jitter adds a fifth":                     {attempt: 2, random: highest, want: 1200 * time.Millisecond},
		"jitter does not exceed the maximum":      {attempt: 20, random: highest, want: 5 * time.Minute},
		"a longer wait that was asked for wins":   {attempt: 1, asked: 10 * time.Second, random: lowest, want: 10 * time.Second},
		"a shorter wait that was asked for loses": {attempt: 6, asked: time.Second, random: middle, want: 16 * time.Second},
		"a wait that was asked for is capped":     {attempt: 1, asked: time.Hour, random: middle, want: 5 * time.Minute},
		"a wait that was asked for is spread":     {attempt: 1, asked: 10 * time.Second, random: highest, want: 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, backoff.Delay(tc.attempt, tc.asked, tc.random))
		})
	}
}
