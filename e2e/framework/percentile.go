package framework

import (
	"math"
	"slices"
	"time"
)

// Percentile is the smallest value that p percent of the values do not exceed; 0 when there are none.
func Percentile(values []time.Duration, p float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
