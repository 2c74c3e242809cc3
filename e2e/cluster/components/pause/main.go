// Command pause holds a pod's namespaces: it waits for the signal to stop and reaps orphaned processes.
package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for received := range signals {
		if received != syscall.SIGCHLD {
			os.Exit(0)
		}
		for reap() {
		}
	}
}

// reap reaps one dead child, and reports whether there may be another.
func reap() bool {
	pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	return pid > 0 || errors.Is(err, syscall.EINTR)
}
