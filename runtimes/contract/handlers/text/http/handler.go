// Package handler is a handler of the contract.
package handler

import (
	"io"
	"net/http"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		function.Fail(w, err)
		return
	}
	_, _ = w.Write(append([]byte("got "), text...))
}
