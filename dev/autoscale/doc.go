// Package autoscale replaces KEDA in local mode: it polls the scaler, over gRPC, for the backlog of each Function, and
// decides the number of processes of each.
//
//	scaler --StreamIsActive: true--> push --+
//	scaler <--GetMetricSpec, GetMetrics,    +--> decide --> Scale
//	          IsActive-------------- poll --+
//	an HTTP request ----------------- Hold -+
//
// It owns the decision and no process. It guarantees the behaviour of KEDA:
//   - a push wakes at once; polls find work without a push;
//   - an unknown backlog holds the replicas, but keeps no idle Function awake;
//   - scaling to zero happens only after a cooldown without work, counted from the last activity;
//   - 1 to the maximum follows backlog and target, up at once, down after the backlog has stayed small for a while;
//   - the decisions for a Function are serialized, and the newest one stays in force.
package autoscale
