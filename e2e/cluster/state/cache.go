package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// keyLength suffices to distinguish a few hundred entries.
const keyLength = 12

// Cache is the directory whose content outlives clusters.
type Cache string

// CacheFromEnv returns ROUSE_CACHE, or "rouse" in the user's cache directory.
func CacheFromEnv(getenv func(string) string) (Cache, error) {
	if dir := getenv("ROUSE_CACHE"); dir != "" {
		return Cache(dir), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for the cache, set ROUSE_CACHE: %w", err)
	}
	return Cache(filepath.Join(dir, "rouse")), nil
}

// Path joins names to the cache directory.
func (c Cache) Path(names ...string) string {
	return filepath.Join(append([]string{string(c)}, names...)...)
}

// Entry returns the path kind/name-key, after making it with build if it is missing. build writes to a temporary path
// beside it, which is renamed when build succeeds: an entry is complete or absent.
func (c Cache) Entry(kind, name, key string, build func(temporary string) error) (path string, built bool, err error) {
	return c.Named(kind, name+"-"+key, build)
}

// Named is Entry for a path with a fixed name instead of a key.
func (c Cache) Named(kind, name string, build func(temporary string) error) (path string, built bool, err error) {
	path = c.Path(kind, name)
	if _, err := os.Stat(path); err == nil {
		now := time.Now() // Prune keeps recently used entries
		return path, false, os.Chtimes(path, now, now)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", false, err
	}
	temporary := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	defer func() { _ = os.RemoveAll(temporary) }()
	if err := build(temporary); err != nil {
		return "", false, err
	}
	if err := os.Rename(temporary, path); err != nil && !errors.Is(err, os.ErrExist) {
		return "", false, err
	}
	return path, true, nil
}

// Key hashes the parts into a short name for a cache entry. Parts are separated, so that moving a letter from one to
// the next changes the key.
func Key(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil))[:keyLength]
}

// KeyOfFiles hashes the content of files and their names below base.
func KeyOfFiles(base string, paths ...string) (string, error) {
	parts := make([]string, 0, 2*len(paths))
	for _, path := range paths {
		sum, err := SumFile(path)
		if err != nil {
			return "", err
		}
		name, err := filepath.Rel(base, path)
		if err != nil {
			return "", err
		}
		parts = append(parts, name, sum)
	}
	return Key(parts...), nil
}

// SumFile returns the SHA-256 of a file, in hex.
func SumFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// Temporary makes a directory for work in progress. Sweep removes it if this process cannot.
func (c Cache) Temporary(name string) (dir string, remove func(), err error) {
	dir = c.Path("work", fmt.Sprintf("%s.%d.tmp", name, os.Getpid()))
	remove = func() { _ = os.RemoveAll(dir) }
	return dir, remove, os.MkdirAll(dir, 0o755)
}

// Sweep removes unfinished files of killed processes.
func (c Cache) Sweep() error {
	paths, err := filepath.Glob(c.Path("*", "*.tmp"))
	if err != nil {
		return err
	}
	var problems []error
	for _, path := range paths {
		pid := strings.TrimPrefix(filepath.Ext(strings.TrimSuffix(path, ".tmp")), ".")
		if _, err := os.Stat("/proc/" + pid); err == nil {
			continue // its process is still running
		}
		problems = append(problems, os.RemoveAll(path))
	}
	return errors.Join(problems...)
}

// Prune removes all but the newest entries of one name.
func (c Cache) Prune(kind, name string, keep int) error {
	paths, err := filepath.Glob(c.Path(kind, name+"-"+strings.Repeat("[0-9a-f]", keyLength)))
	if err != nil {
		return err
	}
	age := map[string]time.Time{}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			age[path] = info.ModTime()
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return age[b].Compare(age[a]) })
	var problems []error
	for _, path := range paths[min(keep, len(paths)):] {
		problems = append(problems, os.RemoveAll(path))
	}
	return errors.Join(problems...)
}
