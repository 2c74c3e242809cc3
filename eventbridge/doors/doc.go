// Package doors takes the requests that arrive at Doors from outside of the cluster, and hands their events to the ingress.
//
//	gateway --> is it a gateway? --> Door --> places --> body --> who sent it --> event --> known? --> ingress --> answer
//	            (handler.go)                (limits.go)          (internal/door)           (ledger.go)
//
// The gateway passes on what it alone knows: the Door, the sender's address and the client certificate, in headers that nobody
// outside can set, with a token that proves that it is one.
//
// Guarantees:
//   - 2xx is answered only after the event is stored, or was stored before; a delivery that is repeated within DeliveriesKept
//     becomes no further event, by any replica, except when the process is killed within half a second after it;
//   - a sender who may not send is told nothing but that, for every reason alike, and the owner why, in the status;
//   - what a Door, a sender's address and a namespace may use is bounded before a request is read: requests, bytes in memory,
//     computing. Senders who were verified lately are not counted with strangers;
//   - the namespace of a Door is the publisher of its events, with its rights and its share;
//   - nothing of a request is logged.
package doors
