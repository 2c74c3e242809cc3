package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/e2e/framework"
)

func scheduleAttacks() []attack {
	return []attack{{"publish by Schedules more than a namespace may", floodBySchedules}}
}

// floodBySchedules asks for 1,500 events a minute, of 1,200.
func floodBySchedules(ctx context.Context, s *stage) (refusal string, err error) {
	const schedules, allowed = 25, 20 // of a second each
	var manifest strings.Builder
	for i := range schedules {
		fmt.Fprintf(&manifest, "---\napiVersion: rouse.run/v1alpha1\nkind: Schedule\nmetadata: {name: flood-%02d}\nspec: {every: 1s, event: {type: flood.v1}}\n", i)
	}
	if err := s.cluster.ApplyYAML(ctx, s.attacker, manifest.String()); err != nil {
		return "", err
	}
	kind := schema.GroupVersionKind{Group: "rouse.run", Version: "v1alpha1", Kind: "Schedule"}
	err = framework.Await(ctx, time.Minute, "Schedules above the share to be refused", func(ctx context.Context) (bool, error) {
		refused := 0
		for i := range schedules {
			conditions, err := s.cluster.Conditions(ctx, s.attacker, kind, fmt.Sprintf("flood-%02d", i))
			if err != nil {
				return false, err
			}
			if ready := conditions["Ready"]; ready.Reason == "ShareExceeded" {
				refused++
				refusal = "the controller: " + ready.Message
			}
		}
		if refused < schedules-allowed {
			return false, fmt.Errorf("%d are refused", refused)
		}
		return true, nil
	})
	return refusal, err
}
