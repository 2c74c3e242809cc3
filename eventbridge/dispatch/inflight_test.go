package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cutOff is a message whose broker cannot be reached while it is true.
type cutOff struct {
	Message
	atomic.Bool
}

// Extend implements Message.
func (c *cutOff) Extend(context.Context) error {
	if c.Load() {
		return errors.New("not connected")
	}
	return nil
}

func TestAMessageThatCannotBeExtendedLapses(t *testing.T) {
	t.Parallel()
	f := newInFlight(5*time.Millisecond, func(error) {})
	defer f.stop()
	msg := &cutOff{}
	msg.Store(true)
	f.add(msg)
	require.Eventually(t, func() bool { return f.lapsed(msg) }, time.Minute, time.Millisecond)
	msg.Store(false)
	require.Eventually(t, func() bool { return !f.lapsed(msg) }, time.Minute, time.Millisecond, "it was extended again")
	f.remove(msg)
	require.False(t, f.lapsed(msg))
}
