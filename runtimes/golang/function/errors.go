package function

import (
	"errors"
	"fmt"
	"net/http"
	"os"
)

// Error is a failure whose status and text whoever sent the request may know. Of an event, 4xx but 408 and 429 means that no retry
// will mend it.
type Error struct {
	Status int
	Text   string
}

func (e *Error) Error() string { return e.Text }

// Errorf is an Error: a handler that returns it answers with that status and text.
func Errorf(status int, format string, args ...any) error {
	return &Error{Status: status, Text: fmt.Sprintf(format, args...)}
}

const internalError = "Internal Server Error"

// Fail answers with an Error as it is, and with any other error by 500 without its reason, which goes to stderr.
func Fail(w http.ResponseWriter, err error) {
	if known := (*Error)(nil); errors.As(err, &known) && known.Status >= 400 && known.Status < 600 {
		note(w, err)
		http.Error(w, known.Text, known.Status)
		return
	}
	fmt.Fprintln(os.Stderr, err)
	note(w, err)
	http.Error(w, internalError, http.StatusInternalServerError)
}

// note keeps the error of a call for its span.
func note(w http.ResponseWriter, err error) {
	if guarded, ok := w.(*answer); ok {
		guarded.fail(err)
	}
}
