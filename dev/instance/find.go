package instance

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ErrNone means that no local mode runs.
var ErrNone = errors.New("no local mode is running: start one with rouse dev in another terminal, or name a cluster with --context")

// ErrAmbiguous means that several run, and none for the folder in question.
var ErrAmbiguous = errors.New("several local modes are running")

// Find looks for the local mode that serves the directory or a folder above it, else for the only one that runs. It
// fails with ErrNone or ErrAmbiguous.
func Find(root, directory string) (Instance, error) {
	directory, err := canonical(directory)
	if err != nil {
		return Instance{}, err
	}
	all, err := Running(root)
	if err != nil {
		return Instance{}, err
	}
	return choose(all, directory)
}

// Running lists all that run, by directory.
func Running(root string) ([]Instance, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for local modes: %w", err)
	}
	var all []Instance
	for _, entry := range entries {
		folder := filepath.Join(root, entry.Name())
		if !held(folder) {
			continue
		}
		if i, err := read(folder); err == nil { // one that starts has no file yet
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b Instance) int { return cmp.Compare(a.Directory, b.Directory) })
	return all, nil
}

// choose prefers the nearest folder.
func choose(all []Instance, directory string) (Instance, error) {
	var nearest *Instance
	for i := range all {
		serves := directory == all[i].Directory || strings.HasPrefix(directory, strings.TrimSuffix(all[i].Directory, "/")+"/")
		if serves && (nearest == nil || len(all[i].Directory) > len(nearest.Directory)) {
			nearest = &all[i]
		}
	}
	switch {
	case nearest != nil:
		return *nearest, nil
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0:
		return Instance{}, ErrNone
	}
	folders := make([]string, 0, len(all))
	for _, i := range all {
		folders = append(folders, i.Directory)
	}
	return Instance{}, fmt.Errorf("%w, none of them for this folder: run the command in one of %s", ErrAmbiguous, strings.Join(folders, ", "))
}

// held reports whether a process has the folder's lock.
func held(folder string) bool {
	lock, err := os.Open(filepath.Join(folder, lockFile)) //nolint:gosec // below the state root
	if err != nil {
		return false
	}
	defer func() { _ = lock.Close() }()
	return errors.Is(syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
