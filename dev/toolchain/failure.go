package toolchain

import "fmt"

// Reason classifies why a Function cannot be started. Beside those below there are the reasons of package build.
type Reason string

// Reasons that a build in a cluster does not have.
const (
	InterpreterMissing Reason = "InterpreterMissing" // no Node.js or Python, or one that is too old
	RuntimeUnavailable Reason = "RuntimeUnavailable" // the runtime's server cannot be prepared
	ReferenceMissing   Reason = "ReferenceMissing"   // a ConfigMap or Secret, or a key of one, is not there
	CacheUnusable      Reason = "CacheUnusable"      // the cache or the state folder cannot be written
)

// Failure says why a Function cannot be started and what to do about it.
type Failure struct {
	Reason  Reason
	Message string
	// Log has the last lines of the package manager, when it failed.
	Log string
}

// Error is the reason and the message.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Reason, f.Message) }

func fail(reason Reason, format string, args ...any) *Failure {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
