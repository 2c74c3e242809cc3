package envtest

import (
	"os"
	"syscall"
)

// Write calls write, which writes a program and closes it, while this process starts no other.
func Write(write func() error) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return write()
}

// Script writes commands for sh to the file at path.
func Script(path, commands string) error {
	return Write(func() error {
		return os.WriteFile(path, []byte("#!/bin/sh\n"+commands+"\n"), 0o700)
	})
}
