// Package trace builds a tree from the bridges' records of a chain of events: each event, its deliveries, and the events
// that came of them.
//
// It owns how records become a tree and how that is shown; it makes no requests and has no clock.
//
// Guarantees:
//   - The tree begins at the first event of the chain, whichever event was requested.
//   - Records that several bridges have of the same thing count once, in whatever order they come.
//   - It ends whatever the records say, also when events name each other as their cause. Each event is in it once.
//   - An event that is only named as a cause is in it too.
package trace
