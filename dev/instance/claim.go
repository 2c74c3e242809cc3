package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// claimTimeout is longer than Find holds a lock to check it.
	claimTimeout = 300 * time.Millisecond
	claimPause   = 20 * time.Millisecond
	ownerOnly    = 0o600
	ownersFolder = 0o700
)

// RunningError reports that another local mode serves the folder.
type RunningError struct {
	// Directory is the folder.
	Directory string
	// PID is the process that serves it, 0 when unknown.
	PID int
}

func (e *RunningError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("another rouse dev serves %s: stop it first", e.Directory)
	}
	return fmt.Sprintf("another rouse dev (PID %d) serves %s: stop it with Ctrl-C or kill %d, or use it as it is", e.PID, e.Directory, e.PID)
}

// Claim is the exclusive right to serve a folder. It ends with Release or with the process.
type Claim struct {
	directory string
	folder    string
	lock      *os.File
}

// Acquire claims a directory, whose state is below root. It fails with a RunningError when another process holds the claim.
func Acquire(ctx context.Context, root, directory string) (*Claim, error) {
	folder, err := Folder(root, directory)
	if err != nil {
		return nil, err
	}
	absolute, err := canonical(directory)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, ownersFolder); err != nil {
		return nil, fmt.Errorf("create the state folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_RDWR|os.O_CREATE, ownerOnly) //nolint:gosec // below the state root
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	if err := awaitLock(ctx, lock); err != nil {
		pid := holder(lock)
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &RunningError{Directory: absolute, PID: pid}
		}
		return nil, fmt.Errorf("lock the state folder %s: %w", folder, err)
	}
	c := &Claim{directory: absolute, folder: folder, lock: lock}
	if err := c.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the state folder %s: %w", folder, err), c.Release())
	}
	return c, nil
}

func awaitLock(ctx context.Context, lock *os.File) error {
	for deadline := time.Now().Add(claimTimeout); ; {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(claimPause):
		}
	}
}

// sign writes the PID into the lock file, and removes the instance file that a killed process left behind.
func (c *Claim) sign() error {
	err := os.Remove(filepath.Join(c.folder, file))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	pid := strconv.Itoa(os.Getpid()) + "\n"
	_, writeErr := c.lock.WriteAt([]byte(pid), 0)
	return errors.Join(err, c.lock.Truncate(int64(len(pid))), writeErr)
}

func holder(lock *os.File) int {
	content := make([]byte, 20)
	n, _ := lock.ReadAt(content, 0) // an unreadable file names no process
	pid, err := strconv.Atoi(strings.TrimSpace(string(content[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// Directory returns the claimed directory as an absolute path.
func (c *Claim) Directory() string { return c.directory }

// Folder returns the state folder.
func (c *Claim) Folder() string { return c.folder }

// Empty deletes the state except the named files.
func (c *Claim) Empty(keep ...string) error {
	entries, err := os.ReadDir(c.folder)
	if err != nil {
		return fmt.Errorf("empty the state folder: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == lockFile || slices.Contains(keep, entry.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.folder, entry.Name())); err != nil {
			return fmt.Errorf("empty the state folder: %w", err)
		}
	}
	return nil
}

// Announce publishes the instance for Find.
func (c *Claim) Announce(i Instance) error {
	i.Directory, i.PID = c.directory, os.Getpid()
	return write(c.folder, i)
}

// Release removes the announcement and ends the claim.
func (c *Claim) Release() error {
	err := os.Remove(filepath.Join(c.folder, file))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, c.lock.Close())
}
