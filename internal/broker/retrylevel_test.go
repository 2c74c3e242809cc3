package broker

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestADelayBelongsToTheLongestLevelThatItFills(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]string{
		0:                       "0s",
		retryUnit - 1:           "0s",
		retryUnit:               "125ms",
		2*retryUnit - 1:         "125ms",
		time.Second:             "1s",
		90 * time.Second:        "1m4s",
		time.Hour:               "34m8s",
		MaxRetryDelay:           "18h12m16s",
		1000 * time.Hour:        "18h12m16s",
		-time.Second:            "0s",
		1500 * time.Millisecond: "1s",
	} {
		require.Equal(t, want, levelOf(delay).String(), delay)
	}
	for level := range lastRetryLevel + 1 {
		require.Equal(t, level, levelOf(level.wait()))
		require.Equal(t, min(level+1, lastRetryLevel), levelOf(level.longest()))
	}
	require.Greater(t, lastRetryLevel.longest(), MaxRetryDelay)
}

func TestARetryIsScheduledAtTheEndOfItsLevelOrWhenDue(t *testing.T) {
	t.Parallel()
	stored := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	delayed := func(d time.Duration) nats.Header {
		return nats.Header{headerDelay: {strconv.FormatInt(d.Nanoseconds(), 10)}}
	}
	at := func(d time.Duration) nats.Header {
		return nats.Header{headerDue: {strconv.FormatInt(stored.Add(d).UnixNano(), 10)}}
	}
	for name, tc := range map[string]struct {
		delay     time.Duration // that the level is for
		header    nats.Header
		due, next time.Duration
	}{
		"nothing is left":                {time.Second, delayed(time.Second), time.Second, time.Second},
		"less than a unit is left":       {time.Second, delayed(1100 * time.Millisecond), 1100 * time.Millisecond, 1100 * time.Millisecond},
		"more is left":                   {time.Second, delayed(1900 * time.Millisecond), 1900 * time.Millisecond, time.Second},
		"no level":                       {0, delayed(100 * time.Millisecond), 100 * time.Millisecond, 100 * time.Millisecond},
		"by a time":                      {time.Second, at(1500 * time.Millisecond), 1500 * time.Millisecond, time.Second},
		"a time that is over":            {4 * time.Second, at(-time.Hour), 4 * time.Second, 4 * time.Second},
		"a time of a clock that is late": {time.Second, at(1000 * time.Hour), 2 * time.Second, time.Second},
		"a delay that is no number":      {time.Second, nats.Header{headerDelay: {"soon"}}, time.Second, time.Second},
		"without headers":                {time.Second, nats.Header{}, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			due, next := levelOf(tc.delay).schedule(stored, tc.header)
			require.Equal(t, tc.due, due.Sub(stored))
			require.Equal(t, tc.next, next.Sub(stored))
		})
	}
}

func TestARetrySubjectHasItsSubscriptionAndSize(t *testing.T) {
	t.Parallel()
	name := types.NamespacedName{Namespace: "4s", Name: "orders.v1.eu"}
	subject := retrySubject(levelOf(5*time.Second), sizeClass(3000), name)
	require.Equal(t, "rouse.delay.4s.4.4s.orders.v1.eu", subject)
	size, of := waitingOf(subject)
	require.Equal(t, name, of)
	require.EqualValues(t, 4*kibibyte, classBytes(size))
	size, of = waitingOf("rouse.retry.4s.orders.v1.eu")
	require.Equal(t, name, of)
	require.Empty(t, size)
	for bytes, want := range map[int]string{0: "1", 1: "1", 1024: "1", 1025: "2", 2048: "2", 2049: "4", 1 << 20: "1024"} {
		require.Equal(t, want, sizeClass(bytes), bytes)
	}
}

func TestTheTimeOfTheServerIsNeverAheadAndBehindByAnAnswerAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of := 7 * time.Hour // is the server ahead of this machine
		k := newServerClock()
		ask := func(question, answer time.Duration) {
			asked := time.Now()
			time.Sleep(question)
			server := time.Now().Add(of)
			time.Sleep(answer)
			k.learn(server, asked, time.Now())
		}
		behind := func() time.Duration { return time.Now().Add(of).Sub(k.now()) }

		ask(50*time.Millisecond, 150*time.Millisecond)
		<-k.ready
		require.Equal(t, 150*time.Millisecond, behind())
		ask(time.Millisecond, time.Millisecond)
		require.Equal(t, time.Millisecond, behind(), "a quicker answer is better")
		ask(100*time.Millisecond, 100*time.Millisecond)
		require.Equal(t, time.Millisecond, behind(), "a slower one that may be right changes nothing")
		for _, set := range []time.Duration{time.Minute, -time.Minute} {
			of += set
			ask(time.Millisecond, time.Millisecond)
			require.Equal(t, time.Millisecond, behind(), "the server's clock was set")
		}
	})
}

func TestACopyWaitsInOneLevelThatIsLongEnough(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]string{
		0:                 "0s",
		time.Millisecond:  "125ms",
		retryUnit:         "125ms",
		retryUnit + 1:     "250ms",
		172 * time.Second: "4m16s",
		time.Hour:         "1h8m16s",
		MaxRetryDelay:     "18h12m16s",
	} {
		level := levelAbove(delay)
		require.Equal(t, want, level.String(), delay)
		stored := time.Unix(1000, 0)
		due, next := level.schedule(stored, nats.Header{headerDelay: {strconv.FormatInt(level.wait().Nanoseconds(), 10)}})
		require.Equal(t, next, due, "it is moved to no other level")
		require.Equal(t, stored.Add(level.wait()), due)
	}
}
