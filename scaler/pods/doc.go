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
package pods
