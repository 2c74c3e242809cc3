// Package endpoint tracks which addresses of a Service accept connections, and selects the one for the next request.
//
//	Apply --> addresses <-- Dial (TCP connect, until accepted)
//	            |    ^
//	   gate opens,   Refuse: an address did not accept a connection
//	   closes   |    |
//	            v    |
//	      Gate --> Pick --> request --> Done
//	                         |    ^
//	                        Idle: connections between two requests
//
// Guarantees:
//   - The gate is open exactly while there is an address that is believed to accept connections: ready by its probe, or a
//     starting Function that accepted a connection, and not refused since.
//   - A Function's address is dialled from the moment it is known, so that a cold start does not wait for the next readiness
//     probe. A ready address that refused a connection is dialled until it accepts again.
//   - An endpoint that terminates is neither picked nor dialled.
//   - Pick returns the address with the fewest requests in flight, and takes equal ones in turn. It takes one lock and allocates
//     nothing.
//   - A connection is idle no longer than IdleTimeout, and no more of them than the caller allows. Idle does not read from them.
//   - A pool holds no more than the addresses that were applied last. Without addresses to dial it has no goroutine.
//
// It makes no requests, and depends neither on Kubernetes nor on HTTP.
package endpoint
