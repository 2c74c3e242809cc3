// Package handler is a handler of the contract.
package handler

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprintln(os.Stdout, "began")
	time.Sleep(1500 * time.Millisecond)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"finished": true})
}
