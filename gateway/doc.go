// Package gateway is the data plane of HTTP: it answers the requests of Functions that sleep, and those to the hosts of APIRules.
//
//	caller --> Service --> activator port ----------------+--> waits for a pod --> pod
//	                            |                         |
//	              load stream   +--> scaler --> KEDA      |
//	                                                      |
//	client --> gateway/entrance --> gateway/apirules -------+--> any other Service
//
// It listens on one port for each Function that may sleep. The controller decides for how long these ports are among the
// endpoints of the Function's Service (internal/activation), and the scaler learns from the load stream what waits here. It owns
// no state that outlives the process, has no credentials, and writes nothing to the cluster.
//
// It guarantees:
//   - a process is ready only while it listens on the ports of all Functions that it knows, and, where APIRules are served, knows
//     these and listens for their clients;
//   - after the signal to stop it serves for as long as others may still lead callers to it, takes no new connection then, and
//     finishes what it has begun. Its load is told until the last request has ended;
//   - a request is answered for the Function to which its connection was made, or not at all: a port that another Function has
//     now answers nobody who has kept a connection.
package gateway
