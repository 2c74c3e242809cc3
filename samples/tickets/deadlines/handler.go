// Package handler says until when a ticket has to be answered.
package handler

import (
	"encoding/json"
	"net/http"
	"time"

	"deadlines/calendar"
)

type ticket struct {
	ID       string    `json:"id"`
	Opened   time.Time `json:"opened"`
	Priority string    `json:"priority"`
}

// Handle answers a triaged ticket with an event, which Rouse publishes before the ticket counts as delivered.
func Handle(w http.ResponseWriter, r *http.Request) {
	var triaged ticket
	if err := json.NewDecoder(r.Body).Decode(&triaged); err != nil || triaged.ID == "" {
		http.Error(w, "the data is no triaged ticket", http.StatusBadRequest) // no retry can mend it: a dead letter
		return
	}
	due := calendar.Add(triaged.Opened, 16)
	if triaged.Priority == "urgent" {
		due = triaged.Opened.Add(4 * time.Hour)
	}
	header := w.Header()
	for name, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": triaged.ID + ".scheduled", "Ce-Source": "support", "Ce-Type": "ticket.scheduled", "Content-Type": "application/json",
	} {
		header.Set(name, value)
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"id": triaged.ID, "due": due.UTC().Format(time.RFC3339)}) // the bridge may be gone
}
