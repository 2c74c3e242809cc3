package event

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/cloudevents/sdk-go/v2/event"
)

// remedies are how to write what the SDK refuses.
var remedies = map[string]string{
	specVersion:  `write "1.0", or leave it out`,
	contentType:  "write one as application/json",
	"dataschema": "write an absolute URI, as https://example.com/order.json",
	"id":         "write one, or leave it out for a random one",
	"source":     "write one, as shop or /shop/orders",
	"time":       "write it as 2026-01-02T03:04:05Z",
}

// explain names each member that the SDK refuses, in the order of their names, with the remedy.
func explain(err error) error {
	if _, corrupt := errors.AsType[base64.CorruptInputError](err); corrupt {
		return fmt.Errorf("the data: MUST be base64: %w", err)
	}
	invalid, ok := errors.AsType[sdk.ValidationError](err)
	if !ok {
		return err
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(invalid)) {
		line := fmt.Sprintf("%.40s: %v", name, invalid[name])
		if remedy := remedies[name]; remedy != "" {
			line += "; " + remedy
		}
		lines = append(lines, line)
	}
	return errors.New(strings.Join(lines, "\n"))
}
