// Package calendar counts working hours: from 9 to 17 o'clock UTC, from Monday to Friday.
package calendar

import "time"

const begin, end = 9, 17

// Add returns the time at which that many working hours have passed.
func Add(from time.Time, hours int) time.Time {
	at := from.UTC()
	for left := time.Duration(hours) * time.Hour; ; {
		at = next(at)
		closing := time.Date(at.Year(), at.Month(), at.Day(), end, 0, 0, 0, time.UTC)
		if today := closing.Sub(at); left > today {
			left -= today
			at = closing
			continue
		}
		return at.Add(left)
	}
}

// next returns the first working moment from at on.
func next(at time.Time) time.Time {
	opening := time.Date(at.Year(), at.Month(), at.Day(), begin, 0, 0, 0, time.UTC)
	switch {
	case at.Weekday() == time.Saturday || at.Weekday() == time.Sunday || at.Hour() >= end:
		return next(opening.AddDate(0, 0, 1))
	case at.Before(opening):
		return opening
	}
	return at
}
