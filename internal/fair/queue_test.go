package fair

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysOfAQueueTakeTurnsAndTheirItemsComeInOrder(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	for _, item := range []string{"a1", "a2", "a3", "b1", "a4", "c1", "b2"} {
		q.Push(item[:1], item)
	}
	want := []string{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}
	require.Equal(t, want, slices.Collect(q.All()))
	require.Equal(t, 7, q.Len())
	require.Equal(t, want, popAll(&q))
	require.Zero(t, q.Len())
	require.Empty(t, q.items, "no key is kept that has nothing")
}

func TestAKeyThatComesAgainGoesToTheEnd(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	q.Push("a", "a1")
	q.Push("b", "b1")
	item, ok := q.Pop()
	require.True(t, ok)
	require.Equal(t, "a1", item)
	q.Push("a", "a2")
	require.Equal(t, []string{"b1", "a2"}, popAll(&q))
}

func TestAKeyThatMayNotGoLosesNoTurn(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	for _, item := range []string{"a1", "b1", "b2"} {
		q.Push(item[:1], item)
	}
	item, ok := q.PopFrom(func(key string) bool { return key != "a" })
	require.True(t, ok)
	require.Equal(t, "b1", item)
	_, ok = q.PopFrom(func(string) bool { return false })
	require.False(t, ok)
	require.Equal(t, []string{"a1", "b2"}, popAll(&q))
}

func TestAnItemIsRemovedWhereverItStands(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	for _, item := range []string{"a1", "b1", "b2"} {
		q.Push(item[:1], item)
	}
	is := func(want string) func(string) bool { return func(item string) bool { return item == want } }
	require.True(t, q.Remove("a", is("a1")))
	require.False(t, q.Remove("a", is("a1")))
	require.True(t, q.Remove("b", is("b2")))
	require.Equal(t, []string{"b1"}, popAll(&q))
}

func popAll(q *Queue[string]) (items []string) {
	for item, ok := q.Pop(); ok; item, ok = q.Pop() {
		items = append(items, item)
	}
	return items
}
