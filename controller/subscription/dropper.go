package subscription

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/internal/broker"
)

const (
	// dropInterval is how often the stream is checked for events without interest.
	dropInterval = 30 * time.Second
	// dropShare of the time at most is spent on that, as one part of so many.
	dropShare = 30
)

// Unwanted removes what consumers have left behind that are gone or have lost subjects.
type Unwanted interface {
	DropUnwanted(ctx context.Context, stream string) (uint64, error)
}

// dropper keeps a stream from being full of events that no consumer wants.
type dropper struct {
	unwanted Unwanted
	stream   string
	soon     <-chan struct{} // a consumer was deleted
	dropped  prometheus.Counter
	log      logr.Logger
}

func newDropped(registerer prometheus.Registerer) prometheus.Counter {
	dropped := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "rouse_controller_dropped_events_total",
		Help: "Events that no consumer wanted any more, which NATS had not removed and the controller did.",
	})
	registerer.MustRegister(dropped)
	return dropped
}

// Start drops such events until ctx ends.
func (d *dropper) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.soon:
		case <-timer.C:
			select {
			case <-d.soon: // this run is for both
			default:
			}
		}
		began := time.Now()
		d.drop(ctx)
		pause := dropShare * time.Since(began)
		timer.Reset(max(dropInterval, pause))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

func (d *dropper) drop(ctx context.Context) {
	dropped, err := d.unwanted.DropUnwanted(ctx, d.stream)
	d.dropped.Add(float64(dropped))
	if dropped > 0 {
		d.log.Info("removed events that no consumer wants and NATS had kept", "stream", d.stream, "events", dropped)
	}
	if err != nil && ctx.Err() == nil && !waitsFor(err) {
		d.log.Info("cannot look for events that no consumer wants", "stream", d.stream, "reason", err.Error())
	}
}

// waitsFor reports whether others log the error.
func waitsFor(err error) bool {
	return errors.Is(err, broker.ErrNotConnected) || errors.Is(err, broker.ErrNoStream) || errors.Is(err, errEventingManager)
}
