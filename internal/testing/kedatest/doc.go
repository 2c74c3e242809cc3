// Package kedatest simulates KEDA for an external scaler: a client that calls
// as KEDA's operator does, and decides on replicas from the responses.
//
// It guarantees these properties of KEDA:
//   - it requests the metric specs until there are some, and nothing else before;
//   - a poll is GetMetricSpec, GetMetrics and IsActive, one after the other,
//     without a deadline, and with one more try after an error;
//   - the push stream acts on true only, and drops it while the metric's name is
//     not known;
//   - polls and pushes of one ScaledObject wait for each other;
//   - a stream that ends is opened again after 2 s, doubling to 60 s; only an
//     end without an error makes it 2 s again;
//   - an error holds the replicas, and 0 removes them after the cooldown;
//   - an HPA without a behavior of its own follows the value every 15 s: at most four more replicas, or twice as many, and
//     fewer only when no recommendation within 300 s was higher.
//
// The rules come from internal/kedarules. The caller passes the clock.
package kedatest
