// Package asker asks servers that tenants have named, outside of the workers of controllers.
//
// Guarantees:
//   - Answer never waits. Without an answer the object is an event when there is one, and that answer is given to it once, however old it
//     has become until a worker comes.
//   - Equal questions are asked once, and one at a time.
//   - The questions that are asked at a time are bounded, and shared by the namespaces that have named the servers: one takes no more than
//     it leaves free, and of those that wait the one comes first whose servers took the least time so far.
//   - A question is bounded in time, and so many wait that memory is bounded. One too many is answered with an error at once.
package asker
