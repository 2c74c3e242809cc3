package broker

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// publicationOf has so many messages of so many bytes each.
func publicationOf(key string, messages, size int) *publication {
	all := make([]*nats.Msg, messages)
	for i := range all {
		all[i] = &nats.Msg{Data: make([]byte, size)}
	}
	return newPublication(key, all, time.Time{})
}

func keysOf(publications []*publication) (keys []string) {
	for _, p := range publications {
		keys = append(keys, p.key)
	}
	return keys
}

func TestARoundTakesAllThatWaitsWhileItFits(t *testing.T) {
	t.Parallel()
	queue := []*publication{publicationOf("shop", 1, 10), publicationOf("red", 998, 10), publicationOf("shop", 1, 10)}
	round, rest := cut(queue)
	require.Equal(t, queue, round)
	require.Empty(t, rest)
}

func TestARoundOfALongQueueIsSharedByKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		hostile     func() *publication
		count, most int
	}{
		"of many events":  {func() *publication { return publicationOf("hostile", 1, 10) }, 3000, maxRoundMessages},
		"of large events": {func() *publication { return publicationOf("hostile", 1, 1<<20) }, 60, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var queue []*publication
			for range tc.count {
				queue = append(queue, tc.hostile())
			}
			quiet := []*publication{publicationOf("quiet", 1, 10), publicationOf("quiet", 1, 10)}
			round, rest := cut(append(slices.Clone(queue), quiet...))
			require.Subset(t, round, quiet)
			require.LessOrEqual(t, len(round), tc.most)
			require.Equal(t, queue[len(queue)-len(rest):], rest, "what waits keeps its order")
			l := loadOf(round)
			require.True(t, l.fits())
		})
	}
}

func TestWhatOneCallerPublishesIsInOneRound(t *testing.T) {
	t.Parallel()
	queue := []*publication{
		publicationOf("a", 600, 10), publicationOf("b", 600, 10), publicationOf("c", 2000, 10), publicationOf("d", 300, 10),
	}
	var rounds [][]string
	for len(queue) > 0 {
		var round []*publication
		round, queue = cut(queue)
		rounds = append(rounds, keysOf(round))
	}
	require.Equal(t, [][]string{{"a"}, {"b"}, {"c"}, {"d"}}, rounds)
}

func TestTheFasterWayIsTakenForARoundOfASize(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		single, batch func(n int) time.Duration
		want          map[int]bool // whether a round of so many is a batch
	}{
		"a server that syncs each message": {
			func(n int) time.Duration { return time.Duration(n) * 200 * time.Microsecond },
			func(n int) time.Duration { return 900*time.Microsecond + time.Duration(n)*20*time.Microsecond },
			map[int]bool{1: false, 2: false, 16: true, 128: true, 1000: true},
		},
		"a server that syncs nothing, on a slow disk": {
			func(n int) time.Duration { return time.Duration(n) * 20 * time.Microsecond },
			func(n int) time.Duration { return 20*time.Millisecond + time.Duration(n)*20*time.Microsecond },
			map[int]bool{1: false, 2: false, 16: false, 128: false, 1000: false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p pace
			now := time.Unix(0, 0)
			for n, want := range tc.want {
				var spent, slower time.Duration
				for spent < 10*time.Second {
					batch := p.batch(n, now)
					took := tc.single(n)
					if batch {
						took = tc.batch(n)
					}
					now = now.Add(took)
					spent += took
					if batch != want {
						slower += took
					}
					p.record(n, batch, took, now)
				}
				require.Less(t, slower, spent/20, "rounds of "+strconv.Itoa(n))
			}
		})
	}
}

func TestAWayThatBecomesFasterIsFound(t *testing.T) {
	t.Parallel()
	var p pace
	now := time.Unix(0, 0)
	batchTakes, batches := 10*time.Millisecond, 0
	for i := range 2000 {
		if i == 1000 {
			batchTakes = time.Millisecond
		}
		batch := p.batch(64, now)
		took := 5 * time.Millisecond
		if batch {
			took = batchTakes
			batches++
		}
		now = now.Add(took)
		p.record(64, batch, took, now)
	}
	require.Greater(t, batches, 400)
	require.Less(t, batches, 1050)
}

func TestSpoilersAreBoundedAndForgiven(t *testing.T) {
	t.Parallel()
	s, now := spoilers{}, time.Unix(0, 0)
	for i := range 2 * maxSpoilers {
		s.add(strconv.Itoa(i), now)
	}
	require.Equal(t, maxSpoilers, len(s)) //nolint:testifylint // it would print all of them
	require.True(t, s.has("0", now))
	require.False(t, s.has("0", now.Add(shortestSpoilerTime)))
	later := now.Add(shortestSpoilerTime + longestSpoilerTime)
	s.add("new", later)
	require.True(t, s.has("new", later))
	require.Equal(t, 1, len(s), "those that are forgotten make room") //nolint:testifylint // as above
}

func TestASpoilerIsKeptOutOfBatchesForEverLonger(t *testing.T) {
	t.Parallel()
	s, now := spoilers{}, time.Unix(0, 0)
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		s.add("hostile", now)
		s.add("hostile", now)
		require.True(t, s.has("hostile", now.Add(want-1)))
		now = now.Add(want)
		require.False(t, s.has("hostile", now))
	}
	now = now.Add(longestSpoilerTime)
	s.add("hostile", now)
	require.False(t, s.has("hostile", now.Add(shortestSpoilerTime)))
}

func TestOnlyAServerThatSyncsABatchOnceGetsBatches(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"2.15.0": true, "2.15.2": true, "2.16.0-preview.1": true, "3.0.0": true, "2.15.0-RC.1": true,
		"2.14.3": false, "2.9.25": false, "1.4.1": false, "": false, "unknown": false,
	} {
		require.Equal(t, want, syncsBatchesOnce(version), version)
	}
}
