package broker

import (
	"cmp"
	"maps"
	"slices"
)

// cutsOf returns how much each holder has to give up so that all of them together give up excess. The largest holder gives
// first, down to what the next one holds, and then they go on together: what a holder has below that level it keeps.
func cutsOf(held map[string]int64, excess int64) map[string]int64 {
	largest := slices.SortedFunc(maps.Keys(held), func(a, b string) int {
		return cmp.Or(cmp.Compare(held[b], held[a]), cmp.Compare(a, b))
	})
	cuts := map[string]int64{}
	for i := range largest {
		next := int64(0)
		if i+1 < len(largest) {
			next = held[largest[i+1]]
		}
		givers := largest[:i+1]
		freed := int64(0) // that the givers make by going down to the next one
		for _, name := range givers {
			freed += held[name] - next
		}
		if freed < excess && i+1 < len(largest) {
			continue
		}
		level := next + max(freed-excess, 0)/int64(len(givers))
		for _, name := range givers {
			if cut := held[name] - level; cut > 0 {
				cuts[name] = cut
			}
		}
		return cuts
	}
	return cuts
}
