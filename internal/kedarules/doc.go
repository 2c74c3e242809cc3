// Package kedarules has the rules by which KEDA and the HorizontalPodAutoscaler that it makes decide on replicas, for all
// that takes KEDA's part: local mode and the tests of the scaler.
//
//	0 to 1, and N to 0: KEDA              Scale.Request
//	1 to N, and back:   the HPA           DesiredReplicas, Recommendations, ScaleUpLimit, Bounds.Clamp
//	a stream that ends: KEDA              Backoff
//
// Each rule names where KEDA 2.21 or Kubernetes 1.36 has it. It guarantees that
//   - an error holds the replicas, and only the cooldown without work takes the last ones away;
//   - recent recommendations keep replicas, and add none;
//   - memory is bounded by the numbers of replicas that there can be.
//
// All are plain values: the clock is the caller's.
package kedarules
