package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDependenciesOutliveTheDrainOfTheWork(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	groundEnded := make(chan struct{})
	err := RunOn(ctx, func(ctx context.Context) error {
		stop()
		<-ctx.Done()
		select {
		case <-groundEnded:
			return errors.New("the ground ended before the work was drained")
		default:
			return nil
		}
	}, func(ctx context.Context) error {
		<-ctx.Done()
		close(groundEnded)
		return nil
	})
	require.NoError(t, err)
	<-groundEnded
}

func TestWorkIsDrainedWhenADependencyFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("no port")
	err := RunOn(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}, func(context.Context) error { return broken })
	require.ErrorIs(t, err, broken)
}

func TestTheFirstErrorIsReturned(t *testing.T) {
	t.Parallel()
	first := errors.New("work failed")
	err := RunOn(t.Context(), func(context.Context) error { return first },
		func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("ended late")
		})
	require.ErrorIs(t, err, first)
}
