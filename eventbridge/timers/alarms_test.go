package timers

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var someTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func keys(count int) []string {
	all := make([]string, count)
	for i := range all {
		all[i] = "key-" + strconv.Itoa(i)
	}
	return all
}

func TestAlarmsGoOffInTheirOrderAndWithPatience(t *testing.T) {
	t.Parallel()
	now := someTime
	patient := map[string]time.Duration{"b": 2 * time.Second}
	a := newAlarms(func() time.Time { return now }, func(key string) time.Duration { return patient[key] })
	for i, key := range []string{"c", "b", "a"} {
		a.set(key, someTime.Add(time.Duration(3-i)*time.Second)) // a at 1, b at 2 and 2 more, c at 3
	}
	a.set("d", someTime)
	a.drop("d")
	due, next := a.take()
	require.Empty(t, due)
	require.Equal(t, time.Second, next)
	now = someTime.Add(3 * time.Second)
	due, next = a.take()
	require.Equal(t, []string{"a", "c"}, due)
	require.Equal(t, time.Second, next)

	patient["b"] = 0 // another bridge has died
	a.reorder()
	due, _ = a.take()
	require.Equal(t, []string{"b"}, due)
}

func TestAnAlarmIsReplaced(t *testing.T) {
	t.Parallel()
	now := someTime
	a := newAlarms(func() time.Time { return now }, func(string) time.Duration { return time.Second })
	a.set("a", someTime.Add(-time.Minute))
	a.again("a", someTime.Add(time.Minute))
	due, next := a.take()
	require.Empty(t, due)
	require.Equal(t, longestSleep, next)
	now = someTime.Add(time.Minute)
	due, _ = a.take()
	require.Equal(t, []string{"a"}, due)
}
