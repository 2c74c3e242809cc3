// Package filter decides which events match a Subscription: it compiles the filter of a spec once and evaluates events
// against it.
//
// It is pure: the result depends only on the filter and the event, so that it is the same on every bridge and at every
// attempt. A compiled filter is safe for concurrent use.
//
// It guarantees that no user input and no event can cause a panic, and that both are bounded: a filter by its size, its
// depth and the length of its expressions, an evaluation by the cost of its steps. A function whose cost depends on two
// inputs at once (matches, replace, indexOf, join, ...) is checked before it is called, all other costs are added up
// after each step. An expression that cannot be evaluated does not match, and returns an error that contains nothing of
// the event.
//
// Compilation is bounded as well, by the length of the expressions, the nesting of their values, and the number of
// loops and the size of patterns. Bytes returns the approximate memory of a compiled filter. Work returns the cost of
// an evaluation in a unit that depends on no clock, so that a caller with many filters can distinguish light ones from
// others.
package filter
