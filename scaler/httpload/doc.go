// Package httpload decides what calls over HTTP mean to a Function: how many there are, whether any came, and whether the
// Function may sleep.
//
// It guarantees:
//   - each call counts once, whether a gateway, a pod or both report it. A header that a caller forged hides no more than
//     what is counted elsewhere;
//   - a Function with pods may sleep only after it was idle, and its activators were listed, for the whole grace: then every
//     node sends callers to an activator before the last pod goes;
//   - a Function without pods may sleep as soon as nothing waits for it.
//
// It is pure.
//
// Package gateways knows what the gateways hold for each Function, without asking: it follows the endpoints of their
// Service and keeps one stream to each, on which a gateway reports its requests as they come.
//
// It guarantees:
//   - a request that a gateway takes is passed on as soon as its line is read. No lock is held while anything is read or sent;
//   - while a gateway that is Ready has no stream, what waits for a Function is not known, which is an error and never 0. One
//     that is not Ready, terminates or is not listed any more counts as long as its stream lives;
//   - a stream that is silent for three seconds has ended, however slowly bytes come;
//   - lines, Functions and gateways are bounded.
//
// Package pods asks the pods of Functions how many calls they run.
//
// What answers is a tenant's: a pod of the Function's namespace, of which who may write EndpointSlices there chooses the port. It
// guarantees:
//   - only IP addresses are asked, and none that is loopback, link-local or metadata;
//   - each answer takes half a second and a kibibyte at most, and leads nowhere else;
//   - a namespace has no more than 64 pods asked at a time, so that those that stall take little memory;
//   - a pod that is Ready and gives no load is an error, and never 0. So is one that is not Ready but accepts connections:
//     it may run calls. One that accepts none has none;
//   - no error has text of an answer.
package httpload
