package buildqueue

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/fair"
)

// order has the namespaces in turn, and begins with the one whose last grant is the longest ago.
func (s *slots) order() []types.NamespacedName {
	var turns fair.Queue[types.NamespacedName]
	for _, fn := range slices.SortedFunc(maps.Keys(s.waiting), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(s.served[a.Namespace], s.served[b.Namespace]), cmp.Compare(s.waiting[a].number, s.waiting[b].number))
	}) {
		turns.Push(fn.Namespace, fn)
	}
	return slices.Collect(turns.All())
}
