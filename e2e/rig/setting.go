package rig

import (
	"os"
	"strconv"
)

// Setting reads a positive number from the environment.
func Setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}
