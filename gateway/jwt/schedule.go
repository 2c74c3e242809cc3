package jwt

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// minRefresh is also for answers that do not say for how long they hold.
	minRefresh = 5 * time.Minute
	maxRefresh = 20 * time.Minute
	// maxStale is for how long keys hold without an answer.
	maxStale   = 24 * time.Hour
	minRetry   = time.Second
	maxRetry   = time.Minute
	jitterPart = 5 // pauses are up to a fifth shorter, so that replicas do not come at the same time
)

// refreshAfter is the pause after an answer that holds for maxAge.
func refreshAfter(maxAge time.Duration, random float64) time.Duration {
	return withJitter(min(max(maxAge, minRefresh), maxRefresh), random)
}

// retryAfter is the pause after so many failures in a row.
func retryAfter(failures int, random float64) time.Duration {
	const doublings = 6 // from a second to beyond a minute
	return withJitter(min(minRetry<<min(failures-1, doublings), maxRetry), random)
}

// withJitter takes a random number in [0, 1).
func withJitter(pause time.Duration, random float64) time.Duration {
	return pause - time.Duration(float64(pause/jitterPart)*random)
}

// maxAgeOf reads Cache-Control. Without a max-age, or where nothing is to be stored, it is 0.
func maxAgeOf(header http.Header) time.Duration {
	age := time.Duration(0)
	for directive := range strings.SplitSeq(strings.Join(header.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		switch name {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err == nil {
				age = time.Duration(seconds) * time.Second
			}
		}
	}
	return age
}
