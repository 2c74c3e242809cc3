package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/flags"
)

// Share is what one namespace may have.
type Share struct {
	// Schedules of a namespace.
	Schedules int
	// PerMinute is the number of events a minute that they may publish together, in the minutes in which they publish most.
	PerMinute int
}

// DefaultShare returns the chart's defaults.
func DefaultShare() Share {
	const schedules, perMinute = 200, 1200
	return Share{Schedules: schedules, PerMinute: perMinute}
}

// Flags implements flags.Options.
func (s *Share) Flags(fs *flags.Set) {
	fs.Int(&s.Schedules, "schedules-per-namespace", "Schedules that a namespace may have; more are not Ready").AtLeast(0)
	fs.Int(&s.PerMinute, "scheduled-events-per-minute", "events in a minute that the Schedules of a namespace may publish together; "+
		"Schedules above it are not Ready").AtLeast(0)
}

// Over returns why Schedules exceed the share of their namespace, by their UIDs. The oldest have precedence. All Schedules are of
// one namespace; those that are paused, invalid or being deleted count nothing.
func (s Share) Over(all []*v1alpha1.Schedule) map[string]string {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *v1alpha1.Schedule) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	over := map[string]string{}
	count, perMinute := 0, 0
	for _, each := range all {
		plan, err := New(each)
		if err != nil || plan.Paused || each.DeletionTimestamp != nil {
			continue
		}
		switch {
		case count == s.Schedules:
			over[string(each.UID)] = fmt.Sprintf("the namespace has %d older Schedules, and may have %d: pause or delete others", count, s.Schedules)
		case perMinute+plan.PerMinute() > s.PerMinute:
			over[string(each.UID)] = fmt.Sprintf("older Schedules of the namespace publish up to %d events a minute and this one %d, of %d that the namespace may: "+
				"make some rarer, or pause or delete them", perMinute, plan.PerMinute(), s.PerMinute)
		default:
			count, perMinute = count+1, perMinute+plan.PerMinute()
		}
	}
	return over
}
