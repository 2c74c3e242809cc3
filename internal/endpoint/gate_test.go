package endpoint

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheGateWaitsNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := NewGate(false)
	_, err := g.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	g.set(true)
	_, err = g.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled, "a caller that is stopping is not let through")
}

func TestTheGateTellsThoseThatPassedWhenItCloses(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]*Gate{"opened later": NewGate(false), "open from the start": NewGate(true)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g.set(true)
			require.True(t, g.IsOpen())
			require.False(t, g.set(true), "no change")
			closed, err := g.Wait(t.Context())
			require.NoError(t, err)
			requireOpen(t, closed)
			require.True(t, g.set(false))
			<-closed
			require.False(t, g.IsOpen())
			require.True(t, g.set(true))
			again, err := g.Wait(t.Context())
			require.NoError(t, err)
			requireOpen(t, again)
		})
	}
}

func requireOpen(t *testing.T, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
		require.Fail(t, "the gate has closed")
	default:
	}
}
