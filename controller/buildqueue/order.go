package buildqueue

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// order puts the namespace first whose last grant is the longest ago, and each namespace once before any goes twice.
func (s *slots) order() []types.NamespacedName {
	byNamespace := map[string][]types.NamespacedName{}
	for fn := range s.waiting {
		byNamespace[fn.Namespace] = append(byNamespace[fn.Namespace], fn)
	}
	type candidate struct {
		fn                   types.NamespacedName
		round, served, first int
	}
	candidates := make([]candidate, 0, len(s.waiting))
	for namespace, waiting := range byNamespace {
		slices.SortFunc(waiting, func(a, b types.NamespacedName) int {
			return cmp.Compare(s.waiting[a].number, s.waiting[b].number)
		})
		for round, fn := range waiting {
			candidates = append(candidates, candidate{fn, round, s.served[namespace], s.waiting[waiting[0]].number})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.served, b.served), cmp.Compare(a.first, b.first))
	})
	order := make([]types.NamespacedName, len(candidates))
	for i, candidate := range candidates {
		order[i] = candidate.fn
	}
	return order
}
