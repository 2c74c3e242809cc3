package applyconfig

import (
	"encoding/json"
	"fmt"
)

// Of converts a type of the API into its apply configuration, which has the same form in JSON but distinguishes "not
// set" from "zero".
func Of[T any](from any) (*T, error) {
	content, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", from, err)
	}
	to := new(T)
	if err := json.Unmarshal(content, to); err != nil {
		return nil, fmt.Errorf("decode %T: %w", to, err)
	}
	return to, nil
}
