// Package handler is a handler of the contract.
package handler

import (
	"net/http"
)

// Handle is the handler.
func Handle(http.ResponseWriter, *http.Request) {}
