// Package credentials generates the passwords and certificates of an installation that lacks them: for the chart's own
// NATS and registry, and for the scaler and KEDA. It replaces Helm's lookup where the chart is rendered without access to
// the cluster, and would generate new ones each time.
//
// It guarantees that existing values stay, that missing ones are added, and that none is logged.
package credentials
