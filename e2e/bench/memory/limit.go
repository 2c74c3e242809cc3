package main

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// chartLimit is the bytes of memory that the chart gives a bridge. The benchmark is run where the repository is.
func chartLimit() (int64, error) {
	text, err := os.ReadFile("charts/rouse/values.yaml")
	if err != nil {
		return 0, fmt.Errorf("read the chart's values: %w", err)
	}
	var values struct {
		Eventbridge struct {
			Resources struct {
				Limits struct{ Memory resource.Quantity }
			}
		}
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return 0, fmt.Errorf("read the chart's values: %w", err)
	}
	limit := values.Eventbridge.Resources.Limits.Memory.Value()
	if limit <= 0 {
		return 0, errors.New("the chart's values have no eventbridge.resources.limits.memory")
	}
	return limit, nil
}
