// Package gateway is the HTTP data plane: it serves requests to Functions that are scaled to zero, and requests to the hosts
// of APIRules.
//
//	caller --> Service --> activator port ----------------+--> waits for a pod --> pod
//	                            |                         |
//	              load stream   +--> scaler --> KEDA      |
//	                                                      |
//	client --> gateway/entrance --> gateway/apirules -----+--> any other Service
//
// It listens on one port for each Function that may sleep. The controller decides how long these ports are among the
// endpoints of the Function's Service (internal/activation), and the scaler reads from the load stream how many requests
// wait. The gateway has no persistent state and no credentials, and writes nothing to the cluster.
//
// Guarantees:
//   - A process is ready only while it listens on the ports of all known Functions and, where APIRules are served, has loaded
//     them and listens for their clients.
//   - On graceful shutdown it serves as long as callers may still arrive, then accepts no new connections, and completes the
//     requests in progress. It reports load until the last request completes.
//   - A request is served by the Function to whose port it was sent, or not at all: when a port moves to another Function,
//     connections to the old one end.
package gateway
