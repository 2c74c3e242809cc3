package toolchain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// listing is the file next to an entry that lists its content.
	listing = ".files"
	// lockWait is the interval at which a lock of another process is tried again.
	lockWait = 25 * time.Millisecond
)

// store is a folder of entries that are created once. Several processes may share it.
type store struct {
	dir string

	mu    sync.Mutex
	whole map[string]bool // entries that this process checked
}

// filler creates an entry in dir, which is then moved to final.
type filler func(dir, final string) error

// entry returns the folder of an entry. When it does not exist or is incomplete, entry calls begun, and make to fill it.
func (s *store) entry(ctx context.Context, kind, key string, begun func(), fill filler) (string, error) {
	final := filepath.Join(s.dir, kind, key)
	if s.isWhole(final) {
		return final, nil
	}
	making, locks := filepath.Join(s.dir, "making"), filepath.Join(s.dir, "locks")
	for _, dir := range []string{filepath.Dir(final), making, locks} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("create the cache folder: %w", err)
		}
	}
	unlock, err := lock(ctx, filepath.Join(locks, kind+"-"+key))
	if err != nil {
		return "", err
	}
	defer unlock()
	if s.isWhole(final) {
		return final, nil // another process created it meanwhile
	}
	begun()
	temporary := filepath.Join(making, kind+"-"+key)
	if err := s.make(temporary, final, fill); err != nil {
		_ = os.RemoveAll(temporary) // the first error counts
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole[final] = true
	return final, nil
}

func (s *store) make(temporary, final string, fill filler) error {
	// A process that was killed may have left files there.
	if err := errors.Join(os.RemoveAll(temporary), os.RemoveAll(final), os.RemoveAll(final+listing)); err != nil {
		return fmt.Errorf("clear the cache: %w", err)
	}
	if err := os.Mkdir(temporary, 0o700); err != nil {
		return fmt.Errorf("create a folder in the cache: %w", err)
	}
	if err := fill(temporary, final); err != nil {
		return err
	}
	sum, err := list(temporary)
	if err != nil {
		return fmt.Errorf("list a new entry of the cache: %w", err)
	}
	if err := os.Rename(temporary, final); err != nil {
		return fmt.Errorf("move an entry into the cache: %w", err)
	}
	// The entry is valid from here on.
	if err := os.WriteFile(final+listing, []byte(sum), 0o600); err != nil {
		return fmt.Errorf("move an entry into the cache: %w", err)
	}
	return nil
}

// isWhole checks the files of an entry once per process, and only its existence after that.
func (s *store) isWhole(final string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.whole[final] {
		_, err := os.Stat(final)
		return err == nil
	}
	want, err := os.ReadFile(final + listing) //nolint:gosec // in our own cache
	if err != nil {
		return false
	}
	sum, err := list(final)
	s.whole[final] = err == nil && sum == string(want)
	return s.whole[final]
}

// list returns a hash of the names and sizes of all files in a tree.
func list(dir string) (string, error) {
	hash := sha256.New()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(hash, "%s\x00%d\x00%o\n", name, info.Size(), info.Mode().Type())
		return err
	})
	return hex.EncodeToString(hash.Sum(nil)), err
}

// lock waits for an exclusive lock, which ends with the process that holds it.
func lock(ctx context.Context, file string) (unlock func(), err error) {
	opened, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // in our own cache
	if err != nil {
		return nil, fmt.Errorf("open a lock of the cache: %w", err)
	}
	for {
		err = syscall.Flock(int(opened.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = opened.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = opened.Close() // the first error counts
			return nil, fmt.Errorf("lock %s: %w", file, err)
		}
		select {
		case <-ctx.Done():
			_ = opened.Close() // it was not written to
			return nil, ctx.Err()
		case <-time.After(lockWait):
		}
	}
}

// keyOf returns the cache key of the parts.
func keyOf(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil))[:20]
}
