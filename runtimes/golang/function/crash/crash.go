// Package crash says in the termination message why a Function ended while its packages were initialised. A build has the
// handler's package import it, so that it is there before anything of the Function.
//
// It guarantees that no panic of a later time gets there: that may quote an event, and the message is shown in the status.
package crash

import (
	"os"
	"runtime/debug"
)

const notLoaded = "handler did not load:\n"

// log is the file of the termination message, nil where there is none.
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

// Loaded takes back what would be the reason of an end before.
func Loaded() {
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{}) // it fails for no file that is none
	replace("")
}

// Report is the reason of an end, also on stderr.
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
