package migration

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

const (
	// ConfigMap is its name, in the namespace of the release.
	ConfigMap = "rouse-migration"
	// Key has an Order as JSON.
	Key = "order.json"
	// MaxBytes bounds it. More abandoned consumers are told in several orders.
	MaxBytes = 256 << 10
	// MaxAbandoned is how many an Order names at most: each name has 32 characters.
	MaxAbandoned = 4000
)

// Direction is where the Subscriptions of a cluster move to.
type Direction string

// The directions. Without one nothing moves.
const (
	ToRouse Direction = "rouse"
	ToKyma  Direction = "kyma"
)

// Order is what the command asks for, and when it has begun and ended.
type Order struct {
	Direction Direction `json:"direction"`
	// Abandoned names consumers of Kyma that belong to no Subscription and are deleted.
	Abandoned []string `json:"abandoned,omitempty"`
	// Began is when the direction was chosen, and Ended when everything was done.
	Began time.Time  `json:"began"`
	Ended *time.Time `json:"ended,omitempty"`
}

// Parse reads an Order; that of an empty text moves nothing.
func Parse(text string) (Order, error) {
	var order Order
	if text == "" {
		return order, nil
	}
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		return Order{}, fmt.Errorf("%s of ConfigMap %s: %w", Key, ConfigMap, err)
	}
	if !slices.Contains([]Direction{"", ToRouse, ToKyma}, order.Direction) {
		return Order{}, fmt.Errorf("%s of ConfigMap %s: direction %q is neither %s nor %s", Key, ConfigMap, order.Direction, ToRouse, ToKyma)
	}
	order.Abandoned = order.Abandoned[:min(len(order.Abandoned), MaxAbandoned)]
	return order, nil
}

// String returns the text that Parse reads.
func (o Order) String() string {
	text, err := json.Marshal(o)
	if err != nil {
		return "" // it has only texts and times
	}
	return string(text)
}
