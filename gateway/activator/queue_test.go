package activator

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// entered puts so many requests into the queue, and returns the turns of those that have to wait.
func entered(t *testing.T, q *queue, n int) []chan struct{} {
	t.Helper()
	var turns []chan struct{}
	for range n {
		turn, ok := q.enter(n)
		require.True(t, ok)
		if turn != nil {
			turns = append(turns, turn)
		}
	}
	return turns
}

func came(turns []chan struct{}) int {
	n := 0
	for _, turn := range turns {
		select {
		case <-turn:
			n++
		default:
		}
	}
	return n
}

func TestWithPodsNobodyWaitsHoweverManyThereAre(t *testing.T) {
	t.Parallel()
	var q queue
	q.set(1)
	require.Empty(t, entered(t, &q, 10*burst))
}

func TestABurstGoesOutAtThePaceOfAnswers(t *testing.T) {
	t.Parallel()
	var q queue
	turns := entered(t, &q, 3*burst)
	require.Len(t, turns, 3*burst)
	q.set(1)
	require.Equal(t, burst, came(turns))
	for range burst / 2 {
		q.answered()
	}
	require.Equal(t, burst+burst/2, came(turns))
	q.set(2)
	require.Equal(t, 2*burst+burst/2, came(turns))
	q.set(0)
	q.answered()
	require.Equal(t, 2*burst+burst/2, came(turns), "without a pod nobody goes on")
}

func TestWhoCameFirstGoesFirst(t *testing.T) {
	t.Parallel()
	var q queue
	turns := entered(t, &q, burst+1)
	q.set(1)
	require.Equal(t, burst, came(turns[:burst]))
	late, ok := q.enter(burst)
	require.True(t, ok)
	require.NotNil(t, late, "it does not overtake the one that waits")
}

func TestWhoGoesAwayLeavesItsPlace(t *testing.T) {
	t.Parallel()
	var q queue
	turns := entered(t, &q, 2)
	_, ok := q.enter(2)
	require.False(t, ok, "the queue is full")
	require.True(t, q.leave(turns[0]))
	require.False(t, q.leave(turns[0]))
	_, ok = q.enter(2)
	require.True(t, ok)
	require.Equal(t, 2, q.length())
	q.set(1)
	require.Equal(t, 0, came(turns[:1]))
	require.False(t, q.leave(turns[1]), "its turn has come")
}
