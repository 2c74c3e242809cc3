// Package kedarules implements the rules by which KEDA and the HorizontalPodAutoscaler that it makes decide on replicas, for
// the replacements of KEDA, local mode and the tests of the scaler, and for those who explain or supplement its decisions.
//
//	0 to 1, and N to 0: KEDA              Scale.Request
//	1 to N, and back:   the HPA           DesiredReplicas, Recommendations, ScaleUpLimit, Bounds.Clamp
//	a stream that ends: KEDA              Backoff
//	why it is so:                         Status.Explain
//	what a user has set by annotations:   Status.ReadAnnotations
//
// Each rule names its source in KEDA 2.21 or Kubernetes 1.36. It guarantees that
//   - an error holds the replicas, and only a cooldown without work removes the last ones;
//   - recent recommendations keep replicas, and add none;
//   - memory is bounded by the numbers of replicas that there can be.
//
// All are plain values: the caller passes the time.
package kedarules
