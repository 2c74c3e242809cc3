package handler

import (
	"net/http"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, r *http.Request) {
	for { //nolint:revive // it never gives up the processor
	}
}
