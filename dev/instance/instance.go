package instance

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	file     = "instance.json"
	lockFile = "lock"
)

// Instance is a running local mode.
type Instance struct {
	// Directory is the absolute path of the served folder.
	Directory string `json:"directory"`
	// PID is the ID of its process.
	PID int `json:"pid"`
	// Started is the time of its start.
	Started time.Time `json:"started"`
	// Publish is the URL that events are published to.
	Publish string `json:"publish"`
	// Admin is the URL of the bridge's admin API, which requires the Token.
	Admin string `json:"admin"`
	// Control is the URL of the control API, which requires the Token.
	Control string `json:"control"`
	// Dashboard is the URL of the dashboard, which requires the Token; empty without one.
	Dashboard string `json:"dashboard,omitempty"`
	// Token is the bearer token of all three.
	Token string `json:"token"`
	// Namespace is the default namespace of commands.
	Namespace string `json:"namespace"`
}

// read returns the instance that a state folder announces.
func read(folder string) (Instance, error) {
	var i Instance
	content, err := os.ReadFile(filepath.Join(folder, file)) //nolint:gosec // below the state root
	if err != nil {
		return i, fmt.Errorf("read the address of the local mode: %w", err)
	}
	if err := json.Unmarshal(content, &i); err != nil {
		return i, fmt.Errorf("read the address of the local mode: %s: %w", filepath.Join(folder, file), err)
	}
	return i, nil
}

// write replaces the file atomically. Only its owner can read it.
func write(folder string, i Instance) error {
	content, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("announce the local mode: %w", err)
	}
	temporary, err := os.CreateTemp(folder, file) // 0600
	if err != nil {
		return fmt.Errorf("announce the local mode: %w", err)
	}
	_, err = temporary.Write(content)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), filepath.Join(folder, file))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("announce the local mode: %w", err), os.Remove(temporary.Name()))
	}
	return nil
}

// product is the name of the folder below the user's folders.
const product = "rouse"

// Root returns the folder of all state folders: $XDG_STATE_HOME/rouse.
func Root() (string, error) {
	if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, product), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the state folder: %w; set XDG_STATE_HOME", err)
	}
	return filepath.Join(home, ".local", "state", product), nil
}

// CacheRoot returns the cache folder: $XDG_CACHE_HOME/rouse.
func CacheRoot() (string, error) {
	if base := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, product), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w; set XDG_CACHE_HOME", err)
	}
	return filepath.Join(home, ".cache", product), nil
}

// Folder returns the state folder of a directory below root. Its name begins with the directory's, for people who read it.
func Folder(root, directory string) (string, error) {
	absolute, err := canonical(directory)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(absolute))
	return filepath.Join(root, filepath.Base(absolute)+"-"+hex.EncodeToString(sum[:6])), nil
}

// canonical returns the absolute path of a directory without symbolic links.
func canonical(directory string) (string, error) {
	absolute, err := filepath.Abs(directory)
	if err != nil {
		return "", fmt.Errorf("find the folder %s: %w", directory, err)
	}
	resolved, err := filepath.EvalSymlinks(absolute)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("folder %s does not exist", directory)
	}
	if err != nil {
		return "", fmt.Errorf("find the folder %s: %w", directory, err)
	}
	return resolved, nil
}

// ErrNone is returned when no local mode runs.
var ErrNone = errors.New("no local mode is running: start one with rouse dev in another terminal, or name a cluster with --context")

// ErrElsewhere is returned when no local mode serves the folder that was named.
var ErrElsewhere = errors.New("no local mode is running in")

// ErrAmbiguous is returned when several local modes run, and none for the folder in question.
var ErrAmbiguous = errors.New("several local modes are running")

// Find returns the local mode that serves the directory or a folder above it, or else the only one that runs. It fails with ErrNone or
// ErrAmbiguous.
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

// Serving returns the local mode that serves the directory or a folder above it, and no other. It fails with ErrElsewhere.
func Serving(root, directory string) (Instance, error) {
	absolute, err := canonical(directory)
	if err != nil {
		return Instance{}, err
	}
	all, err := Running(root)
	if err != nil {
		return Instance{}, err
	}
	if found := nearest(all, absolute); found != nil {
		return *found, nil
	}
	err = fmt.Errorf("%w %s: start it with rouse dev %s", ErrElsewhere, absolute, directory)
	if len(all) > 0 {
		err = fmt.Errorf("%w; local modes run in %s", err, strings.Join(folders(all), ", "))
	}
	return Instance{}, err
}

// Running returns all running local modes, by directory.
func Running(root string) ([]Instance, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find local modes: %w", err)
	}
	var all []Instance
	for _, entry := range entries {
		folder := filepath.Join(root, entry.Name())
		if !held(folder) {
			continue
		}
		if i, err := read(folder); err == nil { // a starting one has no file yet
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b Instance) int { return cmp.Compare(a.Directory, b.Directory) })
	return all, nil
}

// choose returns the instance of the nearest folder, or else the only one.
func choose(all []Instance, directory string) (Instance, error) {
	if found := nearest(all, directory); found != nil {
		return *found, nil
	}
	switch len(all) {
	case 0:
		return Instance{}, ErrNone
	case 1:
		return all[0], nil
	}
	return Instance{}, fmt.Errorf("%w, but not for this folder: run the command in one of %s", ErrAmbiguous, strings.Join(folders(all), ", "))
}

// nearest returns the instance of the directory or the nearest folder above it, nil without one.
func nearest(all []Instance, directory string) *Instance {
	var found *Instance
	for i := range all {
		serves := directory == all[i].Directory || strings.HasPrefix(directory, strings.TrimSuffix(all[i].Directory, "/")+"/")
		if serves && (found == nil || len(all[i].Directory) > len(found.Directory)) {
			found = &all[i]
		}
	}
	return found
}

func folders(all []Instance) []string {
	named := make([]string, 0, len(all))
	for _, i := range all {
		named = append(named, i.Directory)
	}
	return named
}

// held reports whether a process holds the folder's lock.
func held(folder string) bool {
	lock, err := os.Open(filepath.Join(folder, lockFile)) //nolint:gosec // below the state root
	if err != nil {
		return false
	}
	defer func() { _ = lock.Close() }()
	return errors.Is(syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
