package process

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheKeeperKillsTheGroupsThatHaveNotEnded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		orders string
		want   []int
	}{
		"none when nothing was started":        {orders: ""},
		"those that go on":                     {orders: "+7\n+8\n+9\n-8\n", want: []int{7, 9}},
		"one that has begun again":             {orders: "+7\n-7\n+7\n", want: []int{7}},
		"none for an end without a beginning":  {orders: "-7\n"},
		"never all processes":                  {orders: "+1\n+0\n-0\n-1\n"},
		"none for what it does not know":       {orders: "\n+\nx\n+x\n"},
		"also when the last order was cut off": {orders: "+7\n+8", want: []int{7, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var killed []int
			keep(strings.NewReader(tc.orders), func(group int) { killed = append(killed, group) })
			slices.Sort(killed)
			require.Equal(t, tc.want, killed)
		})
	}
}
