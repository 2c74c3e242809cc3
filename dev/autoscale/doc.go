// Package autoscale is KEDA's part in local mode: it asks the scaler, over gRPC, how much waits for each Function, and
// decides how many processes each shall have.
//
//	scaler --StreamIsActive: true--> push --+
//	scaler <--GetMetricSpec, GetMetrics,    +--> decide --> Scale
//	          IsActive-------------- poll --+
//	an HTTP request ----------------- Hold -+
//
// It owns the decision and no process. It guarantees what a scaler and its users know of KEDA:
//   - a push wakes at once; polls find what a push did not;
//   - a backlog that is not known holds the replicas, and keeps nothing awake that was idle before;
//   - 0 comes only after the cooldown without work, counted from the last sign of it;
//   - 1 to the maximum follows backlog and target, up at once, down after the backlog has stayed small for a while;
//   - the decisions for a Function follow one another, and the newest is the one that stays.
package autoscale
