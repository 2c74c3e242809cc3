package main

// orderedEvent is the position of an event among those of its key, which are published one after the other.
type orderedEvent struct{ key, position, before int }

// orderedEventOf is false for events of an unordered Subscription. The first event of a key has a negative id before it.
func orderedEventOf(id int) (orderedEvent, bool) {
	all := scenario()
	keys := all[id%len(all)].keys
	if keys == 0 {
		return orderedEvent{}, false
	}
	number := id / len(all)
	return orderedEvent{key: number % keys, position: number / keys, before: id - keys*len(all)}, true
}

// order is what a sink's journal says about the order of its events.
type order struct {
	last      map[int]int // position of the latest event of each key that was taken
	overtaken int         // how many events were taken after a later one
}

// note adds the next id that the sink recorded, repeats left out.
func (o *order) note(id int) {
	at, ordered := orderedEventOf(id)
	if !ordered {
		return
	}
	if last, some := o.last[at.key]; some && at.position < last {
		o.overtaken++
		return
	}
	o.last[at.key] = at.position
}
