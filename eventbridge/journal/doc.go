// Package journal remembers what happened to events lately: in a ring in memory, one for each bridge.
//
//	stored -> filtered
//	       -> retry ... retry -> delivered | deadlettered -> redriven
//
// It owns the ring and the questions that may be asked of it.
//
// Guarantees:
//   - It takes bounded memory: a fixed number of records, whose texts are copied and cut at MaxText, so that no record
//     keeps an event's data alive. Of a payload it knows nothing.
//   - Adding waits for no reader. A reader holds a few records at a time; one that is too slow gets a record of how many it missed.
//   - Records come in the order in which they were added.
//   - A nil Journal takes records and has none.
package journal
