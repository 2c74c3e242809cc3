package dev

import (
	"fmt"
	"syscall"

	"github.com/rouse-run/rouse/internal/broker"
)

const (
	mebibyte = 1 << 20
	// leastFree is the free disk space that a start requires.
	leastFree = 64 * mebibyte
	// storeBytes is more than the streams ever reserve: their own limits bound them.
	storeBytes = 4096 * mebibyte
)

// Free returns the free bytes on the disk of a folder.
func Free(folder string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(folder, &stat); err != nil {
		return 0, fmt.Errorf("read the free space on the disk of %s: %w", folder, err)
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:unconvert // it has another type on other systems
}

// streamsFor returns stream sizes that fit on the disk: those of a cluster, or smaller ones.
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
