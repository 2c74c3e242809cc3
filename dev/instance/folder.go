package instance

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// product is the name of our folder below those of the user.
const product = "rouse"

// Root is where the state of all folders is: $XDG_STATE_HOME/rouse.
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

// CacheRoot is where that is kept which can be made again: $XDG_CACHE_HOME/rouse.
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

// Folder is the state folder of a directory below the root. Its name begins with that of the directory, for people who read it.
func Folder(root, directory string) (string, error) {
	absolute, err := canonical(directory)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(absolute))
	return filepath.Join(root, filepath.Base(absolute)+"-"+hex.EncodeToString(sum[:6])), nil
}

// canonical is the one name of a directory, however it is reached.
func canonical(directory string) (string, error) {
	absolute, err := filepath.Abs(directory)
	if err != nil {
		return "", fmt.Errorf("find the folder %s: %w", directory, err)
	}
	resolved, err := filepath.EvalSymlinks(absolute)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no folder %s", directory)
	}
	if err != nil {
		return "", fmt.Errorf("find the folder %s: %w", directory, err)
	}
	return resolved, nil
}
