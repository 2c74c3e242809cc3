package sink

// leastLoaded picks one of n addresses: among those with the fewest requests in flight, the first from next on. So equal
// addresses are used round-robin. It is -1 when there is none.
func leastLoaded(n, next int, inFlight func(i int) int) int {
	best, least := -1, 0
	for step := range n {
		i := (next + step) % n
		if load := inFlight(i); best < 0 || load < least {
			best, least = i, load
		}
	}
	return best
}
