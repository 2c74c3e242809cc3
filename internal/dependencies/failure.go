package dependencies

import (
	"fmt"

	"github.com/rouse-run/rouse/runtimes/language"
)

// Failure says why dependencies cannot be installed, and what to do about it.
type Failure struct { //nolint:errname // a failed installation, which is said as it is
	Reason  language.Reason
	Message string
	// Log has the last lines that the package manager printed.
	Log string
}

// Error is the reason and the message.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Reason, f.Message) }
