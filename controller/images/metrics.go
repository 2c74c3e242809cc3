package images

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	deleted, failures prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rouse_controller_images_deleted_total", Help: "Images of the internal registry that were deleted because they were unused.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rouse_controller_image_collection_failures_total", Help: "Times that unused images could not be collected.",
		}),
	}
	registry.MustRegister(m.deleted, m.failures)
	return m
}
