// Package journal records what happened to events lately, in the memory of each bridge: in a ring for each namespace, which
// share a fixed number of records.
//
//	stored -> filtered
//	       -> retry ... retry -> delivered | deadlettered -> redriven
//
// It owns the rings and the queries on them.
//
// Guarantees:
//   - Its memory is bounded: a fixed number of records, whose texts are copied and truncated to MaxText, so that no record
//     holds an event's data. Payloads are not recorded.
//   - A full journal drops the oldest record of the namespace that has most. So a namespace that floods it displaces only its
//     own records once it has as many as any other; stored events, which have no namespace yet, count as one.
//   - Adding waits for no reader. A reader holds a few records of each namespace; one that is too slow gets a record with the
//     number of those it missed.
//   - Records come in the order in which they were added.
//   - A nil Journal accepts records and has none.
//
// [Wakes] remember the last wake of each Function, which scalers announce. They are bounded and shared by namespace, too.
package journal
