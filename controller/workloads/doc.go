// Package workloads lets KEDA, or an HPA where there is none, scale workloads that are no Functions by what waits for their Services.
//
//	Service with rouse.run/scale-target --> read --> problem of its annotations? --> look up the target
//	                                                                                          |
//	Event on the Service <-- what is wrong, or done <-- ScaledObject or HPA of the Service <--+
//
// The Service is that of the sinks of Subscriptions, and names a Deployment or a StatefulSet of its namespace, whose pods it
// selects. Its annotations are those that tune Functions, besides the bounds of replicas.
//
// It guarantees that
//   - nothing is written in another namespace, nor to the target, but a replica where an HPA goes that has left none;
//   - a Service with a problem scales nothing that it did not scale before, and loses no ScaledObject or HPA by it: replicas stay;
//   - no second ScaledObject or autoscaler is put on a target;
//   - without the annotation the ScaledObject goes, and KEDA sets the replicas that the target had before.
package workloads
