package rig

import (
	"math"
	"os"
	"slices"
	"strconv"
	"time"
)

// Setting returns a positive number from the environment, or the default.
func Setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// Median returns the middle value, or the lower one of two.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// Milliseconds returns a percentile of durations as a number.
func Milliseconds(values []time.Duration, percent float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := max(int(math.Ceil(percent/100*float64(len(sorted)))), 1)
	return float64(sorted[rank-1].Microseconds()) / 1000
}
