package quota

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestQuotaAllowances(t *testing.T) {
	t.Parallel()
	name := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	share := Amount{Events: 1000, Bytes: 1_000_000}
	for title, tc := range map[string]struct {
		held []Held
		want map[types.NamespacedName]uint64
	}{
		"no events are kept": {nil, map[types.NamespacedName]uint64{}},
		"all keep their share": {
			[]Held{{Subscription: name("a", "x"), Amount: share}, {Subscription: name("b", "x"), Amount: share}}, map[types.NamespacedName]uint64{},
		},
		"one alone may keep all": {
			[]Held{{Subscription: name("a", "x"), Amount: Amount{9000, 9_000_000}}}, map[types.NamespacedName]uint64{},
		},
		"too many events": {
			[]Held{{Subscription: name("a", "x"), Amount: Amount{2000, 10}}, {Subscription: name("b", "x"), Amount: Amount{1, 1}}}, map[types.NamespacedName]uint64{name("a", "x"): 900},
		},
		"few events of many bytes": {
			[]Held{{Subscription: name("a", "x"), Amount: Amount{10, 2_000_000}}, {Subscription: name("b", "x"), Amount: Amount{900, 1}}}, map[types.NamespacedName]uint64{name("a", "x"): 4},
		},
		"many Subscriptions of one namespace": {
			[]Held{{Subscription: name("a", "x"), Amount: Amount{1500, 1}}, {Subscription: name("a", "y"), Amount: Amount{500, 1}}, {Subscription: name("b", "x"), Amount: Amount{}}},
			map[types.NamespacedName]uint64{name("a", "x"): 675, name("a", "y"): 225},
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, allowances(tc.held, share))
		})
	}
}
