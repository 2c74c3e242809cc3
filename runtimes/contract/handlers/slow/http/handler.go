package handler

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Handle is the handler.
func Handle(w http.ResponseWriter, _ *http.Request) {
	fmt.Println("began")
	time.Sleep(1500 * time.Millisecond)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"finished": true})
}
