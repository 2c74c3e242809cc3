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
		"nothing for one that sleeps":       {view: view{prepared: true}},
		"nothing before it is prepared":     {view: view{desired: 2}},
		"all that are wanted":               {view: view{desired: 2, prepared: true}, want: plan{start: 2}},
		"what is missing":                   {view: view{desired: 3, prepared: true, replicas: []replicaView{wanted(1, ready)}}, want: plan{start: 2}},
		"one that starts is not missing":    {view: view{desired: 1, prepared: true, replicas: []replicaView{wanted(1, starting)}}, want: plan{recheckAt: end}},
		"one that ends is missing":          {view: view{desired: 1, prepared: true, replicas: []replicaView{wanted(1, draining)}}, want: plan{start: 1}},
		"the newest ready ones go first":    {view: view{desired: 1, prepared: true, replicas: []replicaView{wanted(1, ready), wanted(2, ready)}}, want: plan{drain: []int{2}}},
		"those that are not ready go first": {view: view{desired: 1, prepared: true, replicas: []replicaView{wanted(1, starting), wanted(2, ready)}}, want: plan{drain: []int{1}, recheckAt: end}},
		"all go to sleep":                   {view: view{prepared: true, replicas: []replicaView{wanted(1, ready), old(2, ready), wanted(3, starting)}}, want: plan{drain: []int{1, 3, 2}, recheckAt: end}},
		"a new version starts beside the old": {
			view: view{desired: 2, prepared: true, replicas: []replicaView{old(1, ready), old(2, ready)}}, want: plan{start: 2},
		},
		"old ones go one by one": {
			view: view{desired: 2, prepared: true, replicas: []replicaView{old(1, ready), old(2, ready), wanted(3, ready), wanted(4, starting)}},
			want: plan{drain: []int{2}, recheckAt: end},
		},
		"old ones that are not ready are of no use": {
			view: view{desired: 1, prepared: true, replicas: []replicaView{old(1, starting)}}, want: plan{start: 1, drain: []int{1}, recheckAt: end},
		},
		"a failure is not repeated at once": {
			view: view{desired: 2, prepared: true, failures: 1, retryAt: noon.Add(time.Second), replicas: []replicaView{old(1, ready)}},
			want: plan{recheckAt: noon.Add(time.Second)},
		},
		"after a failure one tries": {
			view: view{desired: 3, prepared: true, failures: 1, retryAt: noon, replicas: []replicaView{old(1, ready)}}, want: plan{start: 1},
		},
		"while one tries no other does": {
			view: view{desired: 3, prepared: true, failures: 1, replicas: []replicaView{wanted(1, starting)}}, want: plan{recheckAt: end},
		},
		"when it has tried with success the others follow": {
			view: view{desired: 3, prepared: true, failures: 1, replicas: []replicaView{wanted(1, ready)}}, want: plan{start: 2},
		},
		"one that takes too long is given up": {
			view: view{desired: 1, prepared: true, replicas: []replicaView{{id: 1, current: true, started: late}}}, want: plan{abandon: []int{1}},
		},
		"a debugger may take as long as it likes": {
			view: view{desired: 1, prepared: true, exclusive: true, replicas: []replicaView{{id: 1, current: true, started: late}}},
		},
		"a debugged version ends before the next one starts": {
			view: view{desired: 1, prepared: true, exclusive: true, replicas: []replicaView{old(1, ready)}}, want: plan{drain: []int{1}},
		},
		"and the next one waits until it has ended": {
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
		"not prepared yet":                      {outlook: outlook{desired: 1}, want: Preparing},
		"cannot be prepared":                    {outlook: outlook{blocked: true}, want: Failing},
		"cannot be prepared, old version there": {outlook: outlook{blocked: true, prepared: true, desired: 1, current: 1}, want: Failing},
		"not wanted":                            {outlook: outlook{prepared: true, failures: 3}, want: Asleep},
		"wanted":                                {outlook: outlook{prepared: true, desired: 1}, want: Waking},
		"ready":                                 {outlook: outlook{prepared: true, desired: 2, current: 1, old: 1}, want: Ready},
		"old version serves":                    {outlook: outlook{prepared: true, desired: 1, old: 1}, want: Reloading},
		"new version crashes":                   {outlook: outlook{prepared: true, desired: 1, old: 1, failures: 1}, want: Failing},
		"crashes":                               {outlook: outlook{prepared: true, desired: 1, failures: 1}, want: Failing},
		"runs again after a crash":              {outlook: outlook{prepared: true, desired: 1, current: 1, failures: 1}, want: Ready},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, phaseOf(tc.outlook))
		})
	}
}
