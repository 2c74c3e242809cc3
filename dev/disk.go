package dev

import (
	"fmt"
	"syscall"

	"github.com/rouse-run/rouse/internal/broker"
)

const (
	mebibyte = 1 << 20
	// leastFree is what a disk must have left for a start.
	leastFree = 64 * mebibyte
	// storeBytes is more than streams ever reserve. What bounds them is their own size.
	storeBytes = 4096 * mebibyte
)

// free is how many bytes the disk of a folder has left.
func free(folder string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(folder, &stat); err != nil {
		return 0, fmt.Errorf("ask for the room on the disk of %s: %w", folder, err)
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:unconvert // it has another type on other systems
}

// streamsFor fit the streams into what is free: a cluster's sizes, or less where there is less.
func streamsFor(folder string, free int64) (broker.StreamOptions, error) {
	o := broker.DefaultStreamOptions()
	if free < leastFree {
		return o, fmt.Errorf("the disk of %s has %d MiB left, and local mode needs %d: make room, or name another folder with --state",
			folder, free/mebibyte, leastFree/mebibyte)
	}
	o.MaxBytes = min(o.MaxBytes, free/4)
	o.RetryMaxBytes = min(o.RetryMaxBytes, free/16)
	o.DeadLetterMaxBytes = min(o.DeadLetterMaxBytes, free/16)
	return o, nil
}
