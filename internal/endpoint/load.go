package endpoint

// leastLoaded finds one of the usable addresses: among those with the fewest requests in flight, the first from next on. So equal
// addresses are used round-robin. It is -1 when there is none. The lock is held.
func (p *Pool[T]) leastLoaded() int {
	best, least, n := -1, 0, len(p.usable)
	for step := range n {
		i := (p.next + step) % n
		if load := p.usable[i].inFlight; best < 0 || load < least {
			best, least = i, load
		}
	}
	return best
}
