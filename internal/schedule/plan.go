package schedule

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

const (
	// shortest is the least time between two events of a Schedule.
	shortest = time.Second
	// longest bounds spec.every and spec.jitter.
	longest = 10 * 365 * 24 * time.Hour
	// MostWakeAhead bounds spec.wakeAhead.
	MostWakeAhead = 5 * time.Minute
	// skipDeadline is how late an event of a Schedule that skips missed ones may be, unless it says otherwise.
	skipDeadline = time.Minute
	// The years of times in a Schedule. Nanoseconds since 1970 overflow later.
	firstYear, lastYear = 1970, 2200
)

// Plan is a Schedule whose times are known to be valid. The zero Plan is never due.
type Plan struct {
	uid       string
	times     times
	perMinute int
	start     time.Time // zero: any time
	end       time.Time // zero: none
	jitter    time.Duration
	policy    v1alpha1.MissedPolicy
	limit     int
	deadline  time.Duration // 0: none

	// WakeAhead is how long before an event is due its subscribers are woken.
	WakeAhead time.Duration
	// Paused is true while nothing is due.
	Paused bool
}

// times are the due times of a Schedule before its start and end count.
type times interface {
	// next returns the first due time after t, false if there is none.
	next(t time.Time) (time.Time, bool)
}

// New reads a Schedule. An error names the field and what it may be.
func New(s *v1alpha1.Schedule) (Plan, error) {
	spec := &s.Spec
	p := Plan{uid: string(s.UID), policy: spec.Missed.Policy, limit: max(spec.Missed.Limit, 1), Paused: spec.Paused}
	if p.policy == "" {
		p.policy = v1alpha1.MissedOne
	}
	var err error
	if p.times, p.perMinute, err = timesOf(s); err != nil {
		return Plan{}, err
	}
	if p.start, p.end, err = limits(spec); err != nil {
		return Plan{}, err
	}
	for _, duration := range []struct {
		field string
		value v1alpha1.Duration
		most  time.Duration
		into  *time.Duration
	}{
		{"spec.jitter", spec.Jitter, longest, &p.jitter},
		{"spec.wakeAhead", spec.WakeAhead, MostWakeAhead, &p.WakeAhead},
		{"spec.missed.deadline", spec.Missed.Deadline, longest, &p.deadline},
	} {
		if *duration.into, err = parseDuration(duration.field, duration.value, 0, duration.most); err != nil {
			return Plan{}, err
		}
	}
	if p.policy == v1alpha1.MissedSkip && p.deadline == 0 {
		p.deadline = skipDeadline
	}
	return p, CheckEvent(s)
}

// PerMinute is the largest number of events in a minute.
func (p Plan) PerMinute() int { return p.perMinute }

// Next returns the first due time after t, without jitter. It is false if there is none.
func (p Plan) Next(t time.Time) (time.Time, bool) {
	if p.times == nil || p.Paused {
		return time.Time{}, false
	}
	if t.Before(p.start) {
		t = p.start.Add(-1)
	}
	due, ok := p.times.next(t)
	if !ok || !p.end.IsZero() && due.After(p.end) {
		return time.Time{}, false
	}
	return due, true
}

// parseDuration reads a time span within bounds. An empty one is 0.
func parseDuration(field string, text v1alpha1.Duration, least, most time.Duration) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	duration, err := time.ParseDuration(string(text))
	if err != nil || duration < least || duration > most {
		return 0, fmt.Errorf("%s is %q, it must be between %s and %s, such as 90s or 1h30m", field, text, least, most)
	}
	return duration, nil
}

// parseTime reads a time. An empty one is zero.
func parseTime(field string, text v1alpha1.Timestamp) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is %q, it must be a time such as 2027-01-01T09:00:00Z", field, text)
	}
	if at.Year() < firstYear || at.Year() > lastYear {
		return time.Time{}, fmt.Errorf("%s is %q, it must be in the years %d to %d", field, text, firstYear, lastYear)
	}
	return at, nil
}

func limits(spec *v1alpha1.ScheduleSpec) (start, end time.Time, err error) {
	if start, err = parseTime("spec.startAt", spec.StartAt); err != nil {
		return start, end, err
	}
	if end, err = parseTime("spec.endAt", spec.EndAt); err != nil {
		return start, end, err
	}
	if !end.IsZero() && end.Before(start) {
		return start, end, fmt.Errorf("spec.endAt is %q, before spec.startAt, which is %q", spec.EndAt, spec.StartAt)
	}
	return start, end, nil
}

func timesOf(s *v1alpha1.Schedule) (found times, perMinute int, err error) {
	spec := &s.Spec
	switch {
	case spec.Every != "":
		every, err := parseDuration("spec.every", spec.Every, shortest, longest)
		if err != nil {
			return nil, 0, err
		}
		from, err := parseTime("spec.startAt", spec.StartAt)
		if err != nil {
			return nil, 0, err
		}
		if from.IsZero() {
			from = s.CreationTimestamp.Time
		}
		return interval{from: from, every: every}, int(math.Ceil(float64(time.Minute) / float64(every))), nil
	case spec.At != "":
		at, err := parseTime("spec.at", spec.At)
		return once{at}, 1, err
	case spec.Cron != "":
		return cronOf(spec)
	default:
		return nil, 0, errors.New("spec needs one of cron, every and at")
	}
}

// interval is due each time some time has passed.
type interval struct {
	from  time.Time
	every time.Duration
}

func (i interval) next(t time.Time) (time.Time, bool) {
	if t.Before(i.from) {
		return i.from.Add(i.every), true
	}
	return i.from.Add(t.Sub(i.from).Truncate(i.every) + i.every), true
}

// once is due a single time.
type once struct{ at time.Time }

func (o once) next(t time.Time) (time.Time, bool) { return o.at, o.at.After(t) }

// everyHour is set in the hours of a cron line that names all of them with a star.
const everyHour = 1 << 63

func cronOf(spec *v1alpha1.ScheduleSpec) (times, int, error) {
	if strings.Contains(spec.Cron, "=") {
		return nil, 0, fmt.Errorf("spec.cron is %q: name the time zone in spec.timeZone", spec.Cron)
	}
	zone, err := zoneOf(spec.TimeZone)
	if err != nil {
		return nil, 0, err
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	parsed, err := parser.Parse(spec.Cron)
	if err != nil {
		return nil, 0, fmt.Errorf("spec.cron is %q: %w", spec.Cron, err)
	}
	line, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, 0, fmt.Errorf("spec.cron is %q: use spec.every for a time between events", spec.Cron)
	}
	line.Location = time.UTC
	found := wall{line: line, zone: zone, everyHour: line.Hour&everyHour != 0}
	if line.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, 0, fmt.Errorf("spec.cron is %q: no such day exists", spec.Cron)
	}
	return found, bits.OnesCount64(line.Second &^ everyHour), nil
}

func zoneOf(name string) (*time.Location, error) {
	if name == "Local" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "/") {
		return nil, fmt.Errorf("spec.timeZone is %q: use an IANA name such as Europe/Berlin, or UTC", name)
	}
	zone, err := time.LoadLocation(name) // an empty name is UTC
	if err != nil {
		return nil, fmt.Errorf("spec.timeZone is %q: use an IANA name such as Europe/Berlin, or UTC", name)
	}
	return zone, nil
}
