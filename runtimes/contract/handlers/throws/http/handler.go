// Package handler is a handler of the contract.
package handler

import (
	"errors"
	"net/http"
)

// Handle is the handler.
func Handle(http.ResponseWriter, *http.Request) {
	panic(errors.New("the secret reason"))
}
