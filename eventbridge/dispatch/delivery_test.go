package dispatch

import (
	"context"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// broken is a message that cannot be settled for a bug.
type broken struct{ Message }

// Event implements Message.
func (*broken) Event() (cloudevent.Event, error) { return cloudevent.Event{}, nil }

// Attempt implements Message.
func (*broken) Attempt() int { return 1 }

// Release implements Message.
func (*broken) Release() {}

// Ack implements Message.
func (*broken) Ack(context.Context) error { panic("a bug") }

// accepting is a sink that takes everything.
type accepting struct{}

// Send implements Sink.
func (accepting) Send(context.Context, *cloudevent.Event) (Answer, error) {
	return Answer{Status: 204}, nil
}

func TestAPanicWhileSettlingFreesOneSlot(t *testing.T) {
	t.Parallel()
	d := New(Deps{MaxInFlight: 2, Sink: accepting{}, Metrics: NewMetrics(prometheus.NewRegistry()), Log: logr.Discard()}, DefaultOptions())
	var workers sync.WaitGroup
	d.scheduler.start = func(j *job) { workers.Go(func() { d.deliver(t.Context(), j) }) }
	for range 5 {
		d.accept(&broken{})
	}
	workers.Wait()
	d.held.stop()
	require.Zero(t, d.scheduler.running)
	require.Zero(t, d.held.count())
}
