package jetstream

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/broker"
)

var received dispatch.Message

// It is not parallel, because it counts the allocations of the process.
func TestHandingAMessageToItsDispatcherAllocatesNothing(t *testing.T) {
	event, deadLetter := &broker.Message{}, &broker.DeadLetterMessage{}
	each := func(msg dispatch.Message) { received = msg }
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		each(message{event})
		each(deadLetterMessage{deadLetter})
	}))
}

func TestADeadLetterBecomesNoOther(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, deadLetterMessage{}.StoreDeadLetter(t.Context(), dispatch.DeadLetter{}), errDeadLetterAlready)
}
