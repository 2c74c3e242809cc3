// Package filter decides which events a Subscription wants: it compiles the
// filter of a spec once and matches events against it.
//
// It is pure: no clock, no network, nothing but the filter and the event, so
// that the same event gets the same answer on every bridge and at every
// attempt. A filter that compiles is safe for concurrent use.
//
// It guarantees that nothing a user writes or an event carries makes it panic,
// and that both are bounded: a filter by its size, its depth and the length of
// its expressions, an evaluation by what its steps cost. A function whose cost
// depends on two inputs at once (matches, replace, indexOf, join, ...) is
// refused before it is called, all else is added up after each step.
// What cannot be evaluated does not match, and returns an error that contains
// nothing of the event.
//
// To compile is bounded as well, by the length of the expressions, how deep their
// values lie in one another, how many loops they have and how large their patterns
// are. Bytes returns the approximate memory of a compiled filter. Work returns the cost of an
// evaluation in a unit that depends on no clock, so that a caller
// of many can distinguish the light ones from the others.
package filter
