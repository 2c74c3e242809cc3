package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
