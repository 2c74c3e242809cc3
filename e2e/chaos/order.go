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
	last      map[int]int // position of the latest event of each key that was taken
	overtaken int         // how many events were taken after a later one
}

// note takes the ids as they were written down, repeats left out.
func (o *order) note(id int) {
	at, ordered := placeOf(id)
	if !ordered {
		return
	}
	if last, some := o.last[at.key]; some && at.position < last {
		o.overtaken++
		return
	}
	o.last[at.key] = at.position
}
