package main

// place is where an event of an ordered Subscription stands: the events of a key are published one after the other.
type place struct{ key, position, before int }

// placeOf is false for events that no order is kept for. The first of a key has a negative one before it.
func placeOf(id int) (place, bool) {
	all := scenario()
	keys := all[id%len(all)].keys
	if keys == 0 {
		return place{}, false
	}
	number := id / len(all)
	return place{key: number % keys, position: number / keys, before: id - keys*len(all)}, true
}

// order is what a sink's journal says about the order of its events.
type order struct {
	taken     map[int]int // events of each key that were taken, repeats not counted
	overtaken int         // how often an event was taken before the one before it
}

// note takes the ids as they were written down.
func (o *order) note(id int) {
	at, ordered := placeOf(id)
	switch {
	case !ordered:
	case at.position > o.taken[at.key]:
		o.overtaken++
	case at.position == o.taken[at.key]:
		o.taken[at.key]++
	}
}
