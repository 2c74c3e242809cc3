// Package crash writes to the termination message why a Function ended during the initialisation of its packages.
// Builds make the handler's package import it, so that it is initialised before the Function's own packages.
//
// It guarantees that no later panic is written there: it may quote an event, and the message is shown in the status.
package crash

import (
	"os"
	"runtime/debug"
)

const notLoaded = "handler did not load:\n"

// log is the file of the termination message, or nil.
var log *os.File

func init() {
	name := os.Getenv("TERMINATION_LOG_PATH")
	if name == "" {
		name = "/dev/termination-log"
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0) //nolint:gosec // whoever starts the Function names it
	if err != nil {
		return // not in a pod
	}
	if _, err := file.WriteString(notLoaded); err != nil {
		return
	}
	if err := debug.SetCrashOutput(file, debug.CrashOptions{}); err != nil {
		return
	}
	log = file
}

// Loaded ends the capture of panics.
func Loaded() {
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{}) // resetting does not fail
	replace("")
}

// Report writes the reason of the end, also to stderr.
func Report(text string) {
	_, _ = os.Stderr.WriteString(text + "\n")
	replace(text + "\n")
}

func replace(text string) {
	if log == nil {
		return
	}
	// A file that cannot be written has no reader either.
	_ = log.Truncate(0)
	_, _ = log.Seek(0, 0)
	_, _ = log.WriteString(text)
}
