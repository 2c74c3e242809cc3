// Package wake adds replicas to Functions, and to workloads that scale with the events of a Service, where KEDA and the HPA would be late
// in a wake.
//
// KEDA wakes a Function with one replica, and the HPA adds others when it reads the backlog next, up to 15 s later. KEDA also makes
// its calls one after the other within the limits of its client, so that the last of a hundred Functions that wake at once waits for
// seconds. The scaler announces how many replicas the work of a Function needs, and this controller sets them:
//
//	KEDA has set the first replica, the work needs more   at once
//	KEDA has set none                                     after a second, as many as KEDA would
//
// It guarantees that
//   - a Function or workload gets no more than its most replicas, none while its ScaledObject is paused, and none without one;
//   - it acts on the Deployment of a Function, and on what a ScaledObject of ours scales for a Service, in the Service's namespace;
//   - it only adds replicas, and only to those with which KEDA wakes or that it has set itself: what the HPA has decided stays;
//   - a forged or a lost announcement does no harm: KEDA and the HPA remove what no work needs, and add what is missing.
package wake
