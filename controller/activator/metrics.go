package activator

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics have no label that grows with the number of Functions.
type metrics struct{ forged prometheus.Counter }

func newMetrics(registerer prometheus.Registerer, memories *memories, ports *ports) *metrics {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_controller_activators_listed",
		Help: "Functions whose activators are listed, because they sleep, are about to or have just woken.",
	}, func() float64 { return float64(memories.listed()) })
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_controller_activator_ports_used",
		Help: "Functions that HTTP may wake: each has a port of the activators, of which there are 22768.",
	}, func() float64 { return float64(ports.used()) })
	return &metrics{forged: factory.NewCounter(prometheus.CounterOpts{
		Name: "rouse_controller_forged_activator_slices_total",
		Help: "EndpointSlices that claimed to list activators, were not written by the controller, and were deleted.",
	})}
}
