package schedule

import (
	"time"

	"github.com/robfig/cron/v3"
)

// wall is a cron line that the clock on a wall of its zone has to show. The line counts in UTC: as if the wall's were one.
type wall struct {
	line      *cron.SpecSchedule
	zone      *time.Location
	everyHour bool // it goes on through changes of the clock
}

func (w wall) next(t time.Time) (time.Time, bool) {
	if w.everyHour {
		return w.throughChanges(t)
	}
	// A shown time may lie before t where the clock was put back, by an hour in most zones.
	for shown := onWall(t, w.zone); ; {
		if shown = w.line.Next(shown); shown.IsZero() {
			return time.Time{}, false
		}
		if due := shownFirst(shown, w.zone); due.After(t) {
			return due, true
		}
	}
}

// throughChanges counts real time, so that a line of every hour is due in hours that come twice, and in no other one
// where an hour is left out.
func (w wall) throughChanges(t time.Time) (time.Time, bool) {
	line := *w.line
	line.Location = w.zone
	due := line.Next(t.In(w.zone))
	return due, !due.IsZero()
}

// onWall returns what the clock shows, as a time in UTC.
func onWall(t time.Time, zone *time.Location) time.Time {
	local := t.In(zone)
	return time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), local.Nanosecond(), time.UTC)
}

// shownFirst returns when the clock first shows a time, or when it was put forward past it.
func shownFirst(shown time.Time, zone *time.Location) time.Time {
	const day = 24 * time.Hour // no zone changes twice within one
	before := shown.Add(-offset(shown.Add(-day), zone))
	if onWall(before, zone).Equal(shown) {
		return before
	}
	after := shown.Add(-offset(shown.Add(day), zone))
	if onWall(after, zone).Equal(shown) {
		return after
	}
	change, _ := before.In(zone).ZoneBounds()
	return change
}

func offset(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}
