// Package handler is a handler of the contract.
package handler

import (
	"io"
	"net/http"
)

const text = "$$$ b $(FUNC_NAME) c \\n d \u00e9 ü 漢 🦉 `"

// Handle is the handler.
func Handle(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, text)
}
