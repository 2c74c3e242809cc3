// Package credentials makes up the passwords and certificates of an installation that has none: of the chart's own NATS and registry, and
// of the scaler and KEDA. It stands in for Helm where whoever renders the chart cannot look into the cluster, and so would make others each
// time. What is there stays as it is; what is missing is added. Nothing of it is logged.
package credentials
