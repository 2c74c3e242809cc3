package httpload

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
)

func TestAFunctionSleepsOnlyWhenIdleAndListedForTheGrace(t *testing.T) {
	t.Parallel()
	const grace = 15 * time.Second
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	type step func(*Demand)
	look := func(s int, requests, running uint64) step {
		return func(d *Demand) { d.Looked(at(s), Look{Pods: pods{first: {Requests: requests, Running: running}}}) }
	}
	none := func(s int) step { return func(d *Demand) { d.Looked(at(s), Look{}) } }
	called := func(s int) step { return func(d *Demand) { d.Called(at(s)) } }
	listed := func(s int, is bool) step { return func(d *Demand) { d.SetListed(at(s), is) } }

	for name, tc := range map[string]struct {
		steps []step
		asked int
		held  uint64
		pods  bool

		active, idle, maySleep bool
	}{
		"before the first look nothing is idle":     {asked: 100},
		"without pods and calls":                    {steps: []step{none(1)}, asked: 1, idle: true, maySleep: true},
		"a request that waits":                      {steps: []step{none(1)}, asked: 100, held: 1, active: true},
		"a request that a gateway refused":          {steps: []step{none(1), called(2)}, asked: 4, active: true},
		"a request of a while ago":                  {steps: []step{none(1), called(2)}, asked: 7, idle: true, maySleep: true},
		"with pods it has to be listed":             {steps: []step{look(1, 5, 0)}, asked: 100, pods: true, idle: true},
		"listed, but not for the grace":             {steps: []step{look(1, 5, 0), listed(2, true)}, asked: 16, pods: true, idle: true},
		"listed for the grace":                      {steps: []step{look(1, 5, 0), listed(2, true)}, asked: 17, pods: true, idle: true, maySleep: true},
		"listed again starts the grace over":        {steps: []step{look(1, 5, 0), listed(2, true), listed(9, false), listed(10, true)}, asked: 20, pods: true, idle: true},
		"listed twice does not":                     {steps: []step{look(1, 5, 0), listed(2, true), listed(9, true)}, asked: 17, pods: true, idle: true, maySleep: true},
		"a call that runs":                          {steps: []step{look(1, 5, 1), listed(1, true)}, asked: 100, pods: true},
		"a call that has ended since":               {steps: []step{listed(1, true), look(1, 5, 1), look(40, 5, 0)}, asked: 41, pods: true, active: true},
		"a call between two looks":                  {steps: []step{listed(1, true), look(1, 5, 0), look(40, 6, 0)}, asked: 41, pods: true, active: true},
		"idle, but not for the grace":               {steps: []step{listed(1, true), look(1, 5, 0), look(40, 6, 0), look(46, 6, 0)}, asked: 54, pods: true, idle: true},
		"idle for the grace":                        {steps: []step{listed(1, true), look(1, 5, 0), look(40, 6, 0), look(46, 6, 0)}, asked: 55, pods: true, idle: true, maySleep: true},
		"what was counted before the first look":    {steps: []step{listed(1, true), look(1, 5, 0)}, asked: 17, pods: true, idle: true, maySleep: true},
		"a gateway's request holds awake with pods": {steps: []step{listed(1, true), look(1, 5, 0), called(30)}, asked: 44, pods: true, idle: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d Demand
			for _, s := range tc.steps {
				s(&d)
			}
			require.Equal(t, tc.active, d.Active(at(tc.asked), tc.held), "active")
			require.Equal(t, tc.idle, d.Idle(at(tc.asked), tc.held), "idle")
			require.Equal(t, tc.maySleep, d.MaySleep(at(tc.asked), tc.held, tc.pods, grace), "may sleep")
		})
	}
}

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
	require.ErrorContains(t, err, "the gateway reports 32769 Functions, more than the limit of 32768")
	many[price] = activation.FunctionLoad{Requests: 1}
	_, err = l.begin(many)
	require.Error(t, err)
}
