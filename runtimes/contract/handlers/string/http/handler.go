// Package handler is a handler of the contract.
package handler

import (
	"io"
	"net/http"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, "grüß <b>dich</b>")
}
