package never

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Happens fails the test when the condition holds at once or at one of the ticks within the duration.
func Happens(t testing.TB, condition func() bool, duration, tick time.Duration, message ...any) {
	t.Helper()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for end := time.Now().Add(duration); ; <-ticker.C {
		if condition() {
			require.FailNow(t, "the condition holds", message...)
		}
		if time.Now().After(end) {
			return
		}
	}
}
