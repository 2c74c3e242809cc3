// Package wake adds replicas to Functions that wake where KEDA and the HPA would be late.
//
// KEDA wakes a Function with one replica, and the HPA adds others when it reads the backlog next, up to 15 s later. KEDA also makes
// its calls one after the other within the limits of its client, so that the last of a hundred Functions that wake at once waits for
// seconds. The scaler announces how many replicas the work of a Function needs, and this controller sets them:
//
//	KEDA has set the first replica, the work needs more   at once
//	KEDA has set none                                     after a second
//
// It guarantees that
//   - a Function gets no more than its maxReplicas, none while its ScaledObject is paused, and none without a ScaledObject;
//   - it only adds replicas, and only to those with which KEDA wakes or that it has set itself: what the HPA has decided stays;
//   - a forged or a lost announcement does no harm: KEDA and the HPA remove what no work needs, and add what is missing.
package wake
