package subscription

import (
	"cmp"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/internal/broker"
)

const (
	// maxForeignConsumers are shown by name, those that keep most; what the others keep is one sum.
	maxForeignConsumers = 20
	// otherForeignConsumers cannot be the name of a consumer.
	otherForeignConsumers = "(others)"
)

// foreignConsumers watches consumers that are no Subscription's: an abandoned one keeps events until the stream is full.
type foreignConsumers struct {
	kept   *prometheus.GaugeVec
	warned map[string]bool // names of those that keep events without receiving them
	log    logr.Logger
}

func newForeignConsumers(registerer prometheus.Registerer, log logr.Logger) *foreignConsumers {
	s := &foreignConsumers{
		kept: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rouse_controller_foreign_consumer_pending_events",
			Help: "Events that a consumer keeps in the stream that is no Subscription's, as of the last sweep.",
		}, []string{"consumer"}),
		log: log,
	}
	registerer.MustRegister(s.kept)
	return s
}

// show sets the gauge to what they keep, and warns once of each that keeps events and has no receiver.
func (s *foreignConsumers) show(consumers []broker.Consumer) {
	found := slices.DeleteFunc(broker.ForeignConsumers(consumers), func(c broker.Consumer) bool { return c.Backlog.Total() == 0 })
	slices.SortFunc(found, func(a, b broker.Consumer) int {
		return cmp.Or(cmp.Compare(b.Backlog.Total(), a.Backlog.Total()), cmp.Compare(a.Name, b.Name))
	})
	s.kept.Reset()
	left := map[string]bool{}
	for i, consumer := range found {
		name := consumer.Name
		if i >= maxForeignConsumers {
			name = otherForeignConsumers
		}
		s.kept.WithLabelValues(name).Add(float64(consumer.Backlog.Total()))
		if consumer.Received || i >= maxForeignConsumers {
			continue
		}
		left[consumer.Name] = true
		if !s.warned[consumer.Name] {
			s.log.Info("a consumer that is no Subscription's keeps events and has no receiver, delete it in NATS if it is unused",
				"consumer", consumer.Name, "description", consumer.Description, "events", consumer.Backlog.Total())
		}
	}
	s.warned = left
}
