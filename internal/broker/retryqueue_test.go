package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamespacesTakeTurnsHoweverManyRetriesOneHasInHand(t *testing.T) {
	t.Parallel()
	l := newFairQueue()
	release, done := make(chan struct{}), make(chan string, 503)
	for range maxForwards {
		l.do("evil", func() { <-release })
	}
	for range 500 {
		l.do("evil", func() { done <- "evil" })
	}
	for range 3 {
		l.do("victim", func() { done <- "victim" })
	}
	release <- struct{}{} // one goes on with all the others
	var order []string
	for range cap(done) {
		order = append(order, <-done)
	}
	require.Equal(t, []string{"evil", "victim", "evil", "victim", "evil", "victim", "evil"}, order[:7])
	close(release)
	l.running.Wait()
	require.Zero(t, l.busy)
	require.Empty(t, l.queues)
	require.Empty(t, l.waiting)
}
