package dashboard

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// logins counts the attempts to log in.
type logins struct{ accepted, refused prometheus.Counter }

func newLogins() logins {
	counted := func(result string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rouse_dashboard_logins_total", Help: "Attempts to log in to the dashboard.", ConstLabels: prometheus.Labels{"result": result},
		})
	}
	return logins{counted("accepted"), counted("refused")}
}

// Register registers the metrics of sessions.
func (s *Sessions) Register(to prometheus.Registerer) error {
	sessions := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_dashboard_sessions", Help: "Sessions of users who have logged in to the dashboard.",
	}, func() float64 { return float64(s.Count()) })
	return errors.Join(to.Register(sessions), to.Register(s.logins.accepted), to.Register(s.logins.refused))
}

// Register registers the metrics of streams.
func (h *Handler) Register(to prometheus.Registerer) error {
	return to.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_dashboard_streams", Help: "Streams that pages of the dashboard have open.",
	}, func() float64 {
		used, _ := h.streams.Stats()
		return float64(used)
	}))
}
