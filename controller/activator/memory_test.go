package activator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func noon() time.Time { return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) }

// at is a time before or after noon, in seconds.
func at(seconds int) time.Time { return noon().Add(time.Duration(seconds) * time.Second) }

func TestActivatorsAreListedWhileNoPodIsReadyOrSettled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		memory memory
		ready  bool
		want   bool
		after  time.Duration
	}{
		"no pod is ready":                                          {want: true},
		"no pod is ready any more":                                 {memory: memory{readySince: at(-3600)}, want: true},
		"a pod is ready, and they were not listed":                 {ready: true},
		"a pod has just become ready":                              {memory: memory{listed: true}, ready: true, want: true, after: settleTime},
		"a pod has been ready for a second":                        {memory: memory{listed: true, readySince: at(-1)}, ready: true, want: true, after: 2 * time.Second},
		"a pod has been ready for three seconds":                   {memory: memory{listed: true, readySince: at(-3)}, ready: true},
		"announced just now":                                       {memory: memory{readySince: at(-60), announced: noon()}, ready: true, want: true, after: announcementLifetime},
		"announced 14 seconds ago":                                 {memory: memory{listed: true, readySince: at(-60), announced: at(-14)}, ready: true, want: true, after: time.Second},
		"announced 15 seconds ago":                                 {memory: memory{listed: true, readySince: at(-60), announced: at(-15)}, ready: true},
		"announced long ago, and a pod has just become ready":      {memory: memory{listed: true, announced: at(-14)}, ready: true, want: true, after: settleTime},
		"flapping, and a pod has been ready for three seconds":     {memory: memory{listed: true, flapping: true, readySince: at(-3)}, ready: true, want: true, after: 27 * time.Second},
		"flapping, and a pod has been ready for half a minute":     {memory: memory{listed: true, flapping: true, readySince: at(-30)}, ready: true},
		"a new leader finds them listed and a pod ready":           {memory: firstSight(true, noon()), ready: true, want: true, after: announcementLifetime},
		"a new leader finds them not listed and a pod ready":       {memory: firstSight(false, noon()), ready: true},
		"a new leader finds them not listed and no pod ready":      {memory: firstSight(false, noon()), want: true},
		"a new leader has waited for an announcement, in vain":     {memory: firstSight(true, at(-15)).seen(true, at(-15)), ready: true},
		"a Function that stayed ready is not flapping by being so": {memory: memory{readySince: at(-60), ended: at(-1)}, ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after, again := tc.memory.next(tc.ready, noon())
			require.Equal(t, tc.want, after.listed)
			require.Equal(t, tc.after, again)
		})
	}
}

// seen returns the memory after a decision.
func (m memory) seen(ready bool, now time.Time) memory {
	after, _ := m.next(ready, now)
	return after
}

func TestFlappingActivatorsStayListedFor30Seconds(t *testing.T) {
	t.Parallel()
	woken := memory{}.seen(false, at(0)).seen(true, at(10)).seen(true, at(13))
	require.False(t, woken.listed)
	require.Equal(t, at(13), woken.ended)

	soon := woken.seen(false, at(42)).seen(true, at(50)).seen(true, at(53))
	require.True(t, soon.listed, "they had been removed for 29 seconds")
	require.False(t, soon.seen(true, at(80)).listed)

	late := woken.seen(false, at(43)).seen(true, at(50)).seen(true, at(53))
	require.False(t, late.listed, "they had been removed for half a minute")
}

func TestAnnouncementsOfFunctionsThatHTTPDoesNotWakeAreIgnored(t *testing.T) {
	t.Parallel()
	m, price := newMemories(), types.NamespacedName{Namespace: "shop", Name: "price"}
	require.False(t, m.announce(price, noon()))
	require.Empty(t, m.byFunction, "so announcements of others fill no memory")

	m.decide(price, true, false, noon())
	require.Zero(t, m.listed())
	require.True(t, m.announce(price, noon()), "there is something to decide")
	listed, after := m.decide(price, true, false, noon())
	require.True(t, listed)
	require.Equal(t, announcementLifetime, after)
	require.Equal(t, 1, m.listed())
	require.False(t, m.announce(price, at(3)), "they are listed already")
	_, after = m.decide(price, true, true, at(15))
	require.Equal(t, 3*time.Second, after, "and stay so for longer")

	require.True(t, m.forget(price))
	require.False(t, m.forget(price))
	require.False(t, m.announce(price, noon()))
}
