package kedarules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStatusExplainsWhyATargetSleeps(t *testing.T) {
	t.Parallel()
	none, three := uint64(0), uint64(3)
	for want, status := range map[string]Status{
		"no event is pending, and no request": {Waiting: &none},
		"KEDA found no work":                  {},
		"3 events are pending, and KEDA has not set replicas yet; it polls even when it missed the wake": {Waiting: &three},
		"3 events wait for the next attempt, which wakes it":                                             {Waiting: &three, Retrying: 3},
		"autoscaling.keda.sh/paused pauses scaling":                                                      {Waiting: &three, NoScaleOut: "autoscaling.keda.sh/paused"},
		"KEDA cannot scale it: no connection to the scaler":                                              {Waiting: &three, Problem: "no connection to the scaler"},
	} {
		require.Equal(t, []Explanation{{"why 0", want}}, status.Explain(noon()))
	}
}

func TestStatusExplainsWhyATargetIsAwake(t *testing.T) {
	t.Parallel()
	now := noon()
	recently, longAgo := now.Add(-20*time.Second), now.Add(-time.Hour)
	none, one, five := uint64(0), uint64(1), uint64(5)
	awake := Status{Replicas: 1, CooldownSeconds: 60, Waiting: &none}
	for want, change := range map[string]func(s *Status){
		"minReplicas is 2": func(s *Status) { s.Min = 2 },
		"autoscaling.keda.sh/force-activation keeps it awake": func(s *Status) {
			s.Forced = "autoscaling.keda.sh/force-activation"
		},
		"KEDA keeps the replicas while it cannot scale: timeout":              func(s *Status) { s.Problem = "timeout" },
		"1 event is pending or in flight":                                     func(s *Status) { s.Waiting, s.Active = &one, true },
		"3 events are pending or in flight":                                   func(s *Status) { s.Waiting, s.Retrying = &five, 2 },
		"at the last poll of KEDA there were pending events or requests":      func(s *Status) { s.Active = true },
		"at the last poll of the HPA there were pending events or requests":   func(s *Status) { s.Active, s.Autoscaler = true, true },
		"the HPA removes the last replica when it has found no work for 1m0s": func(s *Status) { s.Autoscaler, s.LastActive = true, nil },
		"KEDA has not decided yet":                                            func(*Status) {},
		"the cooldown of 1m0s ends in 40s":                                    func(s *Status) { s.LastActive = &recently },
		"the cooldown of 1m0s is over: KEDA's next poll sets it to 0":         func(s *Status) { s.LastActive = &longAgo },
		"autoscaling.keda.sh/paused-scale-in pauses scaling":                  func(s *Status) { s.NoScaleIn = "autoscaling.keda.sh/paused-scale-in" },
	} {
		status := awake
		change(&status)
		require.Equal(t, []Explanation{{"why not 0", want}}, status.Explain(now))
	}
}

func TestStatusExplainsWhyThereAreNoMoreReplicas(t *testing.T) {
	t.Parallel()
	backlog := func(value float64) []Metric {
		return []Metric{{"rouse-http", 1, 100}, {"rouse-backlog", value, 10}}
	}
	for want, status := range map[string]Status{
		"rouse-backlog is 18 at 10 for each replica, enough for 2":                                                             {Replicas: 2, Max: 5, Metrics: backlog(18)},
		"rouse-backlog is 42 at 10 for each replica, enough for 5: the HPA adds replicas within 15s":                           {Replicas: 2, Max: 5, Metrics: backlog(42)},
		"rouse-backlog is 92 at 10 for each replica, enough for 10, and maxReplicas is 5":                                      {Replicas: 5, Max: 5, Metrics: backlog(92)},
		"rouse-backlog is 12.35 at 10 for each replica, enough for 2: the HPA removes replicas after the stabilization window": {Replicas: 4, Max: 5, Metrics: backlog(12.345)},
		"rouse-http is 0 at 100 for each replica, enough for 1":                                                                {Replicas: 1, Max: 5, Metrics: []Metric{{"rouse-http", 0, 100}}},
		"maxReplicas is 1": {Replicas: 1, Max: 1},
		"the HPA has read no metric yet; it reads them every 15s": {Replicas: 1, Max: 2},
		"KEDA keeps the replicas while it cannot scale: timeout":  {Replicas: 1, Max: 2, Problem: "timeout"},
		"autoscaling.keda.sh/paused pauses scaling":               {Replicas: 1, Max: 2, NoScaleOut: "autoscaling.keda.sh/paused"},
	} {
		explained := status.Explain(noon())
		require.Equal(t, Explanation{"why not more", want}, explained[len(explained)-1])
	}
}

func TestAnnotationsPauseScaling(t *testing.T) {
	t.Parallel()
	const prefix = "autoscaling.keda.sh/"
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        Status
	}{
		"none":           {nil, Status{}},
		"paused":         {map[string]string{prefix + "paused": "true"}, Status{NoScaleIn: prefix + "paused", NoScaleOut: prefix + "paused"}},
		"no longer":      {map[string]string{prefix + "paused": "false"}, Status{}},
		"any other text": {map[string]string{prefix + "paused-scale-out": ""}, Status{NoScaleOut: prefix + "paused-scale-out"}},
		"a number":       {map[string]string{prefix + "paused-replicas": "0"}, Status{NoScaleIn: prefix + "paused-replicas", NoScaleOut: prefix + "paused-replicas"}},
		"the wider one":  {map[string]string{prefix + "paused": "true", prefix + "paused-scale-in": "true"}, Status{NoScaleIn: prefix + "paused", NoScaleOut: prefix + "paused"}},
		"forced":         {map[string]string{prefix + "force-activation": "true"}, Status{Forced: prefix + "force-activation"}},
	} {
		var got Status
		got.ReadAnnotations(tc.annotations)
		require.Equal(t, tc.want, got, name)
	}
}
