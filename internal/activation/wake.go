package activation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Wake is the course of a wake from zero, as a scaler saw it. A stage that it did not see is 0.
type Wake struct {
	// Cause is the sign of work that the wake began with: WokenByPublish, WokenByPoll or WokenByRequest.
	Cause string `json:"cause"`
	// Began is when the scaler had that sign.
	Began time.Time `json:"began"`
	// SentMS is the number of milliseconds until the scaler had told KEDA.
	SentMS int64 `json:"sentMs,omitempty"`
	// AddressedMS is the number of milliseconds until a pod had an address.
	AddressedMS int64 `json:"addressedMs,omitempty"`
	// ReadyMS is the number of milliseconds until a pod was ready.
	ReadyMS int64 `json:"readyMs"`
}

// The causes of wakes.
const (
	WokenByPublish = "publish" // an event was published
	WokenByPoll    = "poll"    // a backlog was found when it was read
	WokenByRequest = "request" // a gateway has taken an HTTP request
)

// longestWake bounds what a wake may have taken.
const longestWake = 24 * time.Hour

// Encode returns the wake as JSON.
func (w Wake) Encode() ([]byte, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode a wake: %w", err)
	}
	return text, nil
}

// DecodeWake decodes a wake.
func DecodeWake(text []byte) (Wake, error) {
	var w Wake
	if err := json.Unmarshal(text, &w); err != nil {
		return Wake{}, fmt.Errorf("decode a wake: %w", err)
	}
	if !slices.Contains([]string{WokenByPublish, WokenByPoll, WokenByRequest}, w.Cause) || w.Began.IsZero() {
		return Wake{}, errors.New("decode a wake: it has no known cause or no beginning")
	}
	for _, stage := range []int64{w.SentMS, w.AddressedMS, w.ReadyMS} {
		if stage < 0 || stage > longestWake.Milliseconds() {
			return Wake{}, fmt.Errorf("decode a wake: a stage after %d ms, which is not from 0 to %d", stage, longestWake.Milliseconds())
		}
	}
	return w, nil
}
