package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	fresh, late := noon.Add(-time.Second), noon.Add(-time.Minute)
	end := fresh.Add(time.Minute)
	wanted := func(id int, s stage) replicaView { return replicaView{id: id, current: true, stage: s, started: fresh} }
	old := func(id int, s stage) replicaView { return replicaView{id: id, stage: s, started: fresh} }
	for name, tc := range map[string]struct {
		view view
		want plan
	}{
		"nothing for a sleeping Function":               {view: view{prepared: true}},
		"nothing before it is prepared":                 {view: view{desired: 2}},
		"all desired replicas":                          {view: view{desired: 2, prepared: true}, want: plan{start: 2}},
		"the missing replicas":                          {view: view{desired: 3, prepared: true, replicas: []replicaView{wanted(1, ready)}}, want: plan{start: 2}},
		"a starting replica is not missing":             {view: view{desired: 1, prepared: true, replicas: []replicaView{wanted(1, starting)}}, want: plan{recheckAt: end}},
		"a draining replica is missing":                 {view: view{desired: 1, prepared: true, replicas: []replicaView{wanted(1, draining)}}, want: plan{start: 1}},
		"the newest ready replicas are drained first":   {view: view{desired: 1, prepared: true, replicas: []replicaView{wanted(1, ready), wanted(2, ready)}}, want: plan{drain: []int{2}}},
		"replicas that are not ready are drained first": {view: view{desired: 1, prepared: true, replicas: []replicaView{wanted(1, starting), wanted(2, ready)}}, want: plan{drain: []int{1}, recheckAt: end}},
		"scale to zero drains all":                      {view: view{prepared: true, replicas: []replicaView{wanted(1, ready), old(2, ready), wanted(3, starting)}}, want: plan{drain: []int{1, 3, 2}, recheckAt: end}},
		"a new version starts beside the old": {
			view: view{desired: 2, prepared: true, replicas: []replicaView{old(1, ready), old(2, ready)}}, want: plan{start: 2},
		},
		"old replicas are drained one by one": {
			view: view{desired: 2, prepared: true, replicas: []replicaView{old(1, ready), old(2, ready), wanted(3, ready), wanted(4, starting)}},
			want: plan{drain: []int{2}, recheckAt: end},
		},
		"old replicas that are not ready are drained at once": {
			view: view{desired: 1, prepared: true, replicas: []replicaView{old(1, starting)}}, want: plan{start: 1, drain: []int{1}, recheckAt: end},
		},
		"a failure is not repeated at once": {
			view: view{desired: 2, prepared: true, failures: 1, retryAt: noon.Add(time.Second), replicas: []replicaView{old(1, ready)}},
			want: plan{recheckAt: noon.Add(time.Second)},
		},
		"after a failure one replica is started": {
			view: view{desired: 3, prepared: true, failures: 1, retryAt: noon, replicas: []replicaView{old(1, ready)}}, want: plan{start: 1},
		},
		"one attempt at a time": {
			view: view{desired: 3, prepared: true, failures: 1, replicas: []replicaView{wanted(1, starting)}}, want: plan{recheckAt: end},
		},
		"after a successful attempt the others are started": {
			view: view{desired: 3, prepared: true, failures: 1, replicas: []replicaView{wanted(1, ready)}}, want: plan{start: 2},
		},
		"a replica that is not ready in time is abandoned": {
			view: view{desired: 1, prepared: true, replicas: []replicaView{{id: 1, current: true, started: late}}}, want: plan{abandon: []int{1}},
		},
		"with a debugger there is no timeout": {
			view: view{desired: 1, prepared: true, exclusive: true, replicas: []replicaView{{id: 1, current: true, started: late}}},
		},
		"a debugged version ends before the next one starts": {
			view: view{desired: 1, prepared: true, exclusive: true, replicas: []replicaView{old(1, ready)}}, want: plan{drain: []int{1}},
		},
		"the next version starts after the debugged one has ended": {
			view: view{desired: 1, prepared: true, exclusive: true, replicas: []replicaView{old(1, draining)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.view.now, tc.view.startWithin = noon, time.Minute
			require.Equal(t, tc.want, decide(tc.view))
		})
	}
}

func TestBackoffDoublesUpToTheMost(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 6: 30 * time.Second, 1000: 30 * time.Second,
	} {
		require.Equal(t, want, backoff(failures, time.Second, 30*time.Second), "after %d", failures)
	}
	require.Equal(t, time.Second, backoff(1, time.Minute, time.Second))
}

func TestPhase(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		outlook outlook
		want    string
	}{
		"not prepared yet":                       {outlook: outlook{desired: 1}, want: Preparing},
		"cannot be prepared":                     {outlook: outlook{blocked: true}, want: Failing},
		"cannot be prepared, old version exists": {outlook: outlook{blocked: true, prepared: true, desired: 1, current: 1}, want: Failing},
		"no desired replicas":                    {outlook: outlook{prepared: true, failures: 3}, want: Asleep},
		"wanted":                                 {outlook: outlook{prepared: true, desired: 1}, want: Waking},
		"ready":                                  {outlook: outlook{prepared: true, desired: 2, current: 1, old: 1}, want: Ready},
		"old version serves":                     {outlook: outlook{prepared: true, desired: 1, old: 1}, want: Reloading},
		"new version crashes":                    {outlook: outlook{prepared: true, desired: 1, old: 1, failures: 1}, want: Failing},
		"crashes":                                {outlook: outlook{prepared: true, desired: 1, failures: 1}, want: Failing},
		"runs again after a crash":               {outlook: outlook{prepared: true, desired: 1, current: 1, failures: 1}, want: Ready},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, phaseOf(tc.outlook))
		})
	}
}
