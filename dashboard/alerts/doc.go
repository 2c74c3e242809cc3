// Package alerts finds the alerts of the chart's PrometheusRule that fire, without a Prometheus.
//
//	/metrics of each pod --> Decode --> Watch.Observe --> history --> rules --> Alert
//
// It owns the rules, the metrics that they read, and how much of their past is kept. The caller reads the pods.
//
// Guarantees:
//   - A rule has the name, the severity, the thresholds and the duration of its namesake in the chart.
//   - What grew before the first reading of a pod raises no alert, unless the pod started after the reading before.
//   - A Watch keeps the readings of a rule's window, an hour at most, and of each namespace 10,000 series of a metric.
package alerts
