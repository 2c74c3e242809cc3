// Package journal remembers what happened to events lately, in the memory of each bridge: a ring for each namespace, which share
// the records that there may be.
//
//	stored -> filtered
//	       -> retry ... retry -> delivered | deadlettered -> redriven
//
// It owns the rings and the questions that may be asked of them.
//
// Guarantees:
//   - It takes bounded memory: a fixed number of records, whose texts are copied and cut at MaxText, so that no record
//     keeps an event's data alive. Of a payload it knows nothing.
//   - A full journal drops the oldest record of the namespace that has most. So a namespace that floods it displaces records of its own
//     alone, once it has as many as any other; what was stored, and is no namespace's yet, counts as one.
//   - Adding waits for no reader. A reader holds a few records of each namespace at a time; one that is too slow gets a record of how many it missed.
//   - Records come in the order in which they were added.
//   - A nil Journal takes records and has none.
package journal
