// Package handler is a handler of the contract.
package handler

import (
	"encoding/json"
	"net/http"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, r *http.Request) {
	event, err := function.EventOf(r)
	var data any
	if err == nil && event != nil {
		err = event.DataAs(&data)
	}
	if err != nil {
		function.Fail(w, err)
		return
	}
	if event == nil {
		http.Error(w, "no event", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": event.ID, "type": event.Type, "source": event.Source, "version": event.Extensions["eventtypeversion"], "data": data,
	})
}
