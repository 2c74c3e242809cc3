package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	file     = "instance.json"
	lockFile = "lock"
)

// Instance is a running local mode.
type Instance struct {
	// Directory is the folder that it serves, absolute.
	Directory string `json:"directory"`
	// PID is its process.
	PID int `json:"pid"`
	// Started is when it came up.
	Started time.Time `json:"started"`
	// Publish is the URL that events are published to.
	Publish string `json:"publish"`
	// Admin is the URL of the bridge's admin API, which asks for the Token.
	Admin string `json:"admin"`
	// Control is the URL of the control API, which asks for the Token.
	Control string `json:"control"`
	// Token is the bearer token of both.
	Token string `json:"token"`
	// Namespace is what a command means that names none.
	Namespace string `json:"namespace"`
}

// read is the instance that holds the state folder.
func read(folder string) (Instance, error) {
	var i Instance
	content, err := os.ReadFile(filepath.Join(folder, file)) //nolint:gosec // below the state root
	if err != nil {
		return i, fmt.Errorf("read where the local mode is: %w", err)
	}
	if err := json.Unmarshal(content, &i); err != nil {
		return i, fmt.Errorf("read where the local mode is: %s: %w", filepath.Join(folder, file), err)
	}
	return i, nil
}

// write puts the whole file in place at once, for its owner alone.
func write(folder string, i Instance) error {
	content, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("say where the local mode is: %w", err)
	}
	temporary, err := os.CreateTemp(folder, file) // 0600
	if err != nil {
		return fmt.Errorf("say where the local mode is: %w", err)
	}
	_, err = temporary.Write(content)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), filepath.Join(folder, file))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("say where the local mode is: %w", err), os.Remove(temporary.Name()))
	}
	return nil
}
