package httpload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/activation"
)

const (
	first  = "10.0.0.1:8080"
	second = "10.0.0.2:8080"
)

type pods = map[string]activation.PodLoad

func gateways(waiting, running uint64) activation.FunctionLoad {
	return activation.FunctionLoad{Requests: 99, Waiting: waiting, Running: running}
}

func TestEachCallCountsOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		look, before Look
		want         uint64
	}{
		"nothing":                        {},
		"a request that waits":           {look: Look{Gateways: gateways(1, 0)}, want: 1},
		"a call of a pod's own":          {look: Look{Pods: pods{first: {Running: 1}}}, want: 1},
		"calls of all pods are added up": {look: Look{Pods: pods{first: {Running: 3}, second: {Running: 4}}}, want: 7},
		"a call through a gateway": {
			look: Look{Gateways: gateways(0, 1), Pods: pods{first: {Running: 1, ViaGateway: 1}}}, want: 1,
		},
		"a call through a gateway that has not reached its pod": {
			look: Look{Gateways: gateways(0, 1), Pods: pods{first: {}}}, want: 1,
		},
		"some wait, some run, some came directly": {
			look: Look{Gateways: gateways(5, 3), Pods: pods{first: {Running: 4, ViaGateway: 2}, second: {Running: 1, ViaGateway: 1}}}, want: 10,
		},
		"an event counts in the backlog": {
			look: Look{Events: 1, Pods: pods{first: {Running: 1, ViaEventbridge: 1}}}, want: 0,
		},
		"an event that ended while the pods were asked": {
			look: Look{Pods: pods{first: {Running: 1, ViaEventbridge: 1}}}, before: Look{Events: 1}, want: 0,
		},
		"an event that began since the backlog was read": {
			look: Look{Events: 1, Pods: pods{first: {Running: 2, ViaEventbridge: 2}}}, before: Look{Events: 1}, want: 1,
		},
		"a forged header of a gateway": {
			look: Look{Pods: pods{first: {Running: 7, ViaGateway: 7}}}, want: 7,
		},
		"a forged header of the eventbridge": {
			look: Look{Pods: pods{first: {Running: 7, ViaEventbridge: 7}}}, want: 7,
		},
		"forged headers at many pods hide no more than one gateway's call": {
			look: Look{Gateways: gateways(0, 1), Pods: pods{first: {Running: 2, ViaGateway: 2}, second: {Running: 2, ViaGateway: 2}}}, want: 4,
		},
		"forged headers hide no more than the events in flight": {
			look: Look{Events: 2, Pods: pods{first: {Running: 5, ViaEventbridge: 5}}}, want: 3,
		},
		"a pod that claims more than it runs": {
			look: Look{Gateways: gateways(0, 9), Events: 9, Pods: pods{first: {Running: 1, ViaGateway: 9, ViaEventbridge: 9}, second: {Running: 1}}},
			want: 10,
		},
		"a gateway that is gone takes its calls along, and its pod has them": {
			look: Look{Pods: pods{first: {Running: 1, ViaGateway: 1}}}, before: Look{Gateways: gateways(0, 1)}, want: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.look.Load(tc.before))
		})
	}
}

func TestACounterThatMovedIsASignOfCalls(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, now pods
		want        bool
	}{
		"no pods":                                 {},
		"the same count":                          {before: pods{first: {Requests: 7}}, now: pods{first: {Requests: 7}}},
		"a call between the looks":                {before: pods{first: {Requests: 7}}, now: pods{first: {Requests: 8}}, want: true},
		"at the second pod":                       {before: pods{first: {Requests: 7}, second: {}}, now: pods{first: {Requests: 7}, second: {Requests: 1}}, want: true},
		"a pod that was restarted":                {before: pods{first: {Requests: 7}}, now: pods{first: {}}, want: true},
		"a new pod without calls":                 {before: pods{first: {Requests: 7}}, now: pods{first: {Requests: 7}, second: {}}},
		"a new pod with calls":                    {before: pods{}, now: pods{second: {Requests: 1}}, want: true},
		"a pod that is gone":                      {before: pods{first: {Requests: 7}, second: {Requests: 1}}, now: pods{first: {Requests: 7}}},
		"another pod in its place, without calls": {before: pods{first: {Requests: 7}}, now: pods{second: {}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Look{Pods: tc.now}.Moved(Look{Pods: tc.before}))
		})
	}
}
