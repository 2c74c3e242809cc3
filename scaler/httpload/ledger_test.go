package httpload

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
)

var (
	price = types.NamespacedName{Namespace: "shop", Name: "price"}
	order = types.NamespacedName{Namespace: "shop", Name: "order"}
)

func TestRequestsThatAGatewayHasTakenAreNoticedOnce(t *testing.T) {
	t.Parallel()
	type step struct {
		first bool
		line  loads
		want  []types.NamespacedName
	}
	of := func(requests, waiting, running uint64) activation.FunctionLoad {
		return activation.FunctionLoad{Requests: requests, Waiting: waiting, Running: running}
	}
	for name, steps := range map[string][]step{
		"what a gateway counted before is no request": {{first: true, line: loads{price: of(7, 0, 0)}}},
		"what waits at a gateway that is new is one": {
			{first: true, line: loads{price: of(7, 1, 0), order: of(7, 0, 0)}, want: []types.NamespacedName{price}},
		},
		"what runs there is one": {{first: true, line: loads{price: of(7, 0, 1)}, want: []types.NamespacedName{price}}},
		"a count that rises is a request, also one that was refused": {
			{first: true, line: loads{}},
			{line: loads{price: of(1, 0, 0)}, want: []types.NamespacedName{price}},
			{line: loads{order: of(1, 1, 0)}, want: []types.NamespacedName{order}},
		},
		"what changes without a new request is none": {
			{first: true, line: loads{}},
			{line: loads{price: of(1, 1, 0)}, want: []types.NamespacedName{price}},
			{line: loads{price: of(1, 0, 1)}},
			{line: loads{price: of(1, 0, 0)}},
		},
		"a request between two streams": {
			{first: true, line: loads{price: of(7, 0, 0), order: of(2, 0, 0)}},
			{first: true, line: loads{price: of(8, 0, 0), order: of(2, 0, 0)}, want: []types.NamespacedName{price}},
		},
		"a request that outlasts its stream": {
			{first: true, line: loads{}},
			{line: loads{price: of(1, 1, 0)}, want: []types.NamespacedName{price}},
			{first: true, line: loads{price: of(1, 1, 0)}, want: []types.NamespacedName{price}},
		},
		"a gateway that was restarted and called": {
			{first: true, line: loads{price: of(7, 0, 0), order: of(2, 0, 0)}},
			{first: true, line: loads{order: of(1, 0, 0)}, want: []types.NamespacedName{order}},
		},
		"a gateway that was restarted and not called": {
			{first: true, line: loads{price: of(7, 3, 3)}, want: []types.NamespacedName{price}},
			{first: true, line: loads{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l ledger
			for i, s := range steps {
				report := l.change
				if s.first {
					report = l.begin
				}
				called, err := report(s.line)
				require.NoError(t, err)
				require.ElementsMatch(t, s.want, called, "line %d", i)
			}
		})
	}
}

func TestAStreamBeginsWithAllFunctionsOfItsGateway(t *testing.T) {
	t.Parallel()
	var l ledger
	_, err := l.begin(loads{price: {Requests: 1, Running: 1}})
	require.NoError(t, err)
	_, err = l.begin(loads{order: {Requests: 1, Waiting: 1}})
	require.NoError(t, err)
	require.Equal(t, loads{order: {Requests: 1, Waiting: 1}}, l.loads)
}

func TestFunctionsOfAGatewayAreBounded(t *testing.T) {
	t.Parallel()
	many := loads{}
	for i := range mostFunctions {
		many[types.NamespacedName{Namespace: "shop", Name: strconv.Itoa(i)}] = activation.FunctionLoad{Requests: 1}
	}
	var l ledger
	_, err := l.begin(many)
	require.NoError(t, err)
	_, err = l.change(loads{{Namespace: "shop", Name: "1"}: {Requests: 2}})
	require.NoError(t, err, "it is known")
	_, err = l.change(loads{price: {Requests: 1}})
	require.ErrorContains(t, err, "it reports 32769 Functions, which is more than 32768")
	many[price] = activation.FunctionLoad{Requests: 1}
	_, err = l.begin(many)
	require.Error(t, err)
}
