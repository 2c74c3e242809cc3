// Package gateways knows what the gateways hold for each Function, without asking: it follows the endpoints of their
// Service and keeps one stream to each, on which a gateway reports its requests as they come.
//
// It guarantees:
//   - a request that a gateway takes is passed on as soon as its line is read. No lock is held while anything is read or sent;
//   - while a gateway that is Ready has no stream, what waits for a Function is not known, which is an error and never 0. One
//     that is not Ready, terminates or is not listed any more counts as long as its stream lives;
//   - a stream that is silent for three seconds has ended, however slowly bytes come;
//   - lines, Functions and gateways are bounded.
package gateways
