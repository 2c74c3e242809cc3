// Package fairshare bounds the processor time that costly work of tenants takes, and shares it fairly.
//
// A Pool has fewer permits than there are processors, so that what is not its work always finds one. A Lane is one
// source of work, such as a Subscription, of one tenant:
//
//	Enter, Leave  light work, at once and in place, while the lane's was light so far
//	Run           one at a time in a lane, within the lane's budget of time, with a permit
//
// A permit that comes free goes to the tenant that has used the least time, among its lanes to the one that waits
// longest. A tenant with many lanes gets no more than one with a single lane.
//
// Guarantees:
//   - No work is cut short or left out: what waits is only later.
//   - A lane uses at most a quarter of a processor over time, all lanes together at most half of the processors.
//   - Light work takes no lock. A tenant whose light work turns out heavy does no more in place for a while.
//   - What waits ends when its caller stops. The pool has no goroutines of its own.
package fairshare
