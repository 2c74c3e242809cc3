package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

var created = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// nightly returns a Schedule that change changes.
func nightly(change func(*v1alpha1.Schedule)) *v1alpha1.Schedule {
	s := &v1alpha1.Schedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly", UID: "u1", CreationTimestamp: metav1.NewTime(created)},
		Spec:       v1alpha1.ScheduleSpec{Event: v1alpha1.ScheduledEvent{Type: "report.due.v1"}},
	}
	change(s)
	return s
}

func cronIn(cron, zone string) *v1alpha1.Schedule {
	return nightly(func(s *v1alpha1.Schedule) { s.Spec.Cron, s.Spec.TimeZone = cron, zone })
}

func planOf(t *testing.T, s *v1alpha1.Schedule) Plan {
	t.Helper()
	plan, err := New(s)
	require.NoError(t, err)
	return plan
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return parsed
}

// dueAfter returns the due times of a plan after a time, in UTC.
func dueAfter(t *testing.T, plan Plan, after string, count int) []string {
	t.Helper()
	var found []string
	for last := at(t, after); len(found) < count; {
		next, ok := plan.Next(last)
		if !ok {
			return found
		}
		require.True(t, next.After(last), "time goes on")
		found, last = append(found, next.UTC().Format(time.RFC3339)), next
	}
	return found
}

func TestCronFollowsTheWallThroughChangesOfTheClock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cron, zone, after string
		want              []string
	}{
		"in summer time and after it": {
			"0 9 * * *", "Europe/Berlin", "2027-10-30T00:00:00Z",
			[]string{"2027-10-30T07:00:00Z", "2027-10-31T08:00:00Z", "2027-11-01T08:00:00Z"},
		},
		"a time that is left out is due at the change": {
			"30 2 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z",
			[]string{"2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"},
		},
		"two times that are left out are due once": {
			"0,30 2 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z",
			[]string{"2027-03-28T01:00:00Z", "2027-03-29T00:00:00Z", "2027-03-29T00:30:00Z"},
		},
		"a time that comes twice is due at the first": {
			"30 2 * * *", "Europe/Berlin", "2027-10-30T12:00:00Z",
			[]string{"2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"},
		},
		"every hour goes on in the hour that comes twice": {
			"30 * * * *", "Europe/Berlin", "2027-10-31T00:00:00Z",
			[]string{"2027-10-31T00:30:00Z", "2027-10-31T01:30:00Z", "2027-10-31T02:30:00Z"},
		},
		"every hour goes on past the one that is left out": {
			"30 * * * *", "Europe/Berlin", "2027-03-28T00:00:00Z",
			[]string{"2027-03-28T00:30:00Z", "2027-03-28T01:30:00Z"},
		},
		"a change of half an hour": {
			"15 2 * * *", "Australia/Lord_Howe", "2027-10-01T16:00:00Z",
			[]string{"2027-10-02T15:30:00Z", "2027-10-03T15:15:00Z"},
		},
		"a leap day": {
			"0 0 29 2 *", "", "2027-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"},
		},
		"seconds":    {"*/20 0 0 1 1 *", "UTC", "2026-12-31T00:00:00Z", []string{"2027-01-01T00:00:00Z", "2027-01-01T00:00:20Z", "2027-01-01T00:00:40Z"}},
		"descriptor": {"@daily", "America/New_York", "2027-01-01T00:00:00Z", []string{"2027-01-01T05:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, dueAfter(t, planOf(t, cronIn(c.cron, c.zone)), c.after, len(c.want)))
		})
	}
}

func TestEveryCountsFromTheStartOrTheCreation(t *testing.T) {
	t.Parallel()
	every := nightly(func(s *v1alpha1.Schedule) { s.Spec.Every = "15m" })
	require.Equal(t, []string{"2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"}, dueAfter(t, planOf(t, every), "2025-12-31T00:00:00Z", 2))
	require.Equal(t, []string{"2026-05-01T12:15:00Z"}, dueAfter(t, planOf(t, every), "2026-05-01T12:00:00Z", 1))
	every.Spec.StartAt = "2026-05-01T12:07:00+02:00"
	require.Equal(t, []string{"2026-05-01T10:22:00Z"}, dueAfter(t, planOf(t, every), "2026-01-01T00:00:00Z", 1))
}

func TestNothingIsDueOutsideItsTimeOrWhilePaused(t *testing.T) {
	t.Parallel()
	daily := cronIn("0 0 * * *", "")
	daily.Spec.StartAt, daily.Spec.EndAt = "2026-03-01T00:00:00Z", "2026-03-03T00:00:00Z"
	require.Equal(t, []string{"2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z"},
		dueAfter(t, planOf(t, daily), "2026-01-01T00:00:00Z", 9), "start and end belong to it")
	daily.Spec.Paused = true
	require.Empty(t, dueAfter(t, planOf(t, daily), "2026-01-01T00:00:00Z", 1))
	once := nightly(func(s *v1alpha1.Schedule) { s.Spec.At = "2026-06-01T00:00:00Z" })
	require.Equal(t, []string{"2026-06-01T00:00:00Z"}, dueAfter(t, planOf(t, once), "2026-01-01T00:00:00Z", 9))
}

func TestAScheduleThatCannotHoldNamesTheField(t *testing.T) {
	t.Parallel()
	for message, change := range map[string]func(*v1alpha1.Schedule){
		"spec needs one of cron, every and at":                 func(*v1alpha1.Schedule) {},
		`spec.cron is "nonsense"`:                              func(s *v1alpha1.Schedule) { s.Spec.Cron = "nonsense" },
		`spec.cron is "0 0 30 2 *": no such day exists`:        func(s *v1alpha1.Schedule) { s.Spec.Cron = "0 0 30 2 *" },
		`spec.cron is "@every 5m": use spec.every`:             func(s *v1alpha1.Schedule) { s.Spec.Cron = "@every 5m" },
		`name the time zone in spec.timeZone`:                  func(s *v1alpha1.Schedule) { s.Spec.Cron = "CRON_TZ=Asia/Tokyo 0 0 * * *" },
		`spec.timeZone is "Local"`:                             func(s *v1alpha1.Schedule) { s.Spec.Cron, s.Spec.TimeZone = "0 0 * * *", "Local" },
		`spec.timeZone is "../etc/passwd"`:                     func(s *v1alpha1.Schedule) { s.Spec.Cron, s.Spec.TimeZone = "0 0 * * *", "../etc/passwd" },
		`spec.timeZone is "+02:00"`:                            func(s *v1alpha1.Schedule) { s.Spec.Cron, s.Spec.TimeZone = "0 0 * * *", "+02:00" },
		`spec.every is "500ms", it must be between 1s and`:     func(s *v1alpha1.Schedule) { s.Spec.Every = "500ms" },
		`spec.every is "99999999h"`:                            func(s *v1alpha1.Schedule) { s.Spec.Every = "99999999h" },
		`spec.at is "9999-01-01T00:00:00Z", it must be in the`: func(s *v1alpha1.Schedule) { s.Spec.At = "9999-01-01T00:00:00Z" },
		`spec.at is "2027-02-30T00:00:00Z", it must be a time`: func(s *v1alpha1.Schedule) { s.Spec.At = "2027-02-30T00:00:00Z" },
		`spec.endAt is "2026-01-01T00:00:00Z", before spec.startAt`: func(s *v1alpha1.Schedule) {
			s.Spec.Cron, s.Spec.StartAt, s.Spec.EndAt = "@daily", "2027-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
		},
		`spec.jitter is "99999999h"`:                        func(s *v1alpha1.Schedule) { s.Spec.Cron, s.Spec.Jitter = "@daily", "99999999h" },
		`spec.wakeAhead is "1h", it must be between 0s and`: func(s *v1alpha1.Schedule) { s.Spec.Cron, s.Spec.WakeAhead = "@daily", "1h" },
		`spec.missed.deadline is "1d"`:                      func(s *v1alpha1.Schedule) { s.Spec.Cron, s.Spec.Missed.Deadline = "@daily", "1d" },
	} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			_, err := New(nightly(change))
			require.ErrorContains(t, err, message)
		})
	}
}

func TestTheRateOfAScheduleIsThatOfItsBusiestMinute(t *testing.T) {
	t.Parallel()
	for cron, want := range map[string]int{"0 0 * * *": 1, "* * * * *": 1, "* * * * * *": 60, "*/10 0 3 * * *": 6} {
		require.Equal(t, want, planOf(t, cronIn(cron, "")).PerMinute(), cron)
	}
	for every, want := range map[v1alpha1.Duration]int{"1s": 60, "90s": 1, "7s": 9, "24h": 1} {
		require.Equal(t, want, planOf(t, nightly(func(s *v1alpha1.Schedule) { s.Spec.Every = every })).PerMinute(), every)
	}
}
