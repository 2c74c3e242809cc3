package daemon

import (
	"fmt"
	"time"
)

// DebugFor is the longest time for which an object is debugged.
const DebugFor = time.Hour

// clockSkew is by how much the clock of who writes the annotation may differ.
const clockSkew = 5 * time.Minute

// Until reads the annotation rouse.run/debug-until. A time that has passed is no error, and means never.
func Until(annotation string, now time.Time) (time.Time, error) {
	until, err := time.Parse(time.RFC3339, annotation)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("it must be a time such as %s, at most one hour ahead", now.Add(DebugFor).UTC().Format(time.RFC3339))
	case until.Sub(now) > DebugFor+clockSkew:
		return time.Time{}, fmt.Errorf("it is more than one hour ahead: %s is the latest", now.Add(DebugFor).UTC().Format(time.RFC3339))
	case until.Sub(now) > DebugFor:
		return now.Add(DebugFor), nil
	default:
		return until, nil
	}
}
