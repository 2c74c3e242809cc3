package resources

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// Trigger is a trigger of KEDA's that a user adds beside the backlog, in the form of a ScaledObject's spec.triggers.
type Trigger struct {
	Type              string                 `json:"type"`
	Name              string                 `json:"name,omitempty"`
	MetricType        string                 `json:"metricType,omitempty"`
	UseCachedMetrics  bool                   `json:"useCachedMetrics,omitempty"`
	Metadata          map[string]string      `json:"metadata"`
	AuthenticationRef *TriggerAuthentication `json:"authenticationRef,omitempty"`
}

// TriggerAuthentication names a TriggerAuthentication of the same namespace.
type TriggerAuthentication struct {
	Name string `json:"name"`
	Kind string `json:"kind,omitempty"`
}

// Bounds of what users add.
const (
	MaxTriggers     = 8
	LongestTriggers = 2048 // bytes of the annotation
)

const kindTriggerAuthentication = "TriggerAuthentication"

// TriggersOf returns the triggers of the annotation. Their types have to be among those that the installation allows: KEDA's operator asks
// whatever a trigger names, with its own rights and from its own network. KEDA checks the metadata.
func TriggersOf(annotations map[string]string, allowed []string) ([]Trigger, error) {
	const key = v1alpha2.AnnotationTriggers
	text, given := annotations[key]
	if !given {
		return nil, nil
	}
	if len(text) > LongestTriggers {
		return nil, fmt.Errorf("annotation %s is longer than %d bytes: shorten it, or write a ScaledObject of your own", key, LongestTriggers)
	}
	var triggers []Trigger
	if err := yaml.UnmarshalStrict([]byte(text), &triggers); err != nil {
		return nil, fmt.Errorf("annotation %s must be a list of triggers like spec.triggers of a ScaledObject: %w", key, err)
	}
	if len(triggers) > MaxTriggers {
		return nil, fmt.Errorf("annotation %s has %d triggers: at most %d are allowed", key, len(triggers), MaxTriggers)
	}
	var problems []error
	for i, trigger := range triggers {
		if problem := trigger.problem(allowed); problem != "" {
			problems = append(problems, fmt.Errorf("annotation %s: trigger %d: %s", key, i+1, problem))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return triggers, nil
}

func (t Trigger) problem(allowed []string) string {
	switch {
	case t.Type == "":
		return "type is missing: set it to one of " + strings.Join(allowed, ", ")
	case !slices.Contains(allowed, t.Type):
		return fmt.Sprintf("type %q is not among those that this installation allows, %s: its operator can add it to functions.triggerTypes",
			t.Type, strings.Join(allowed, ", "))
	case t.AuthenticationRef != nil && t.AuthenticationRef.Kind != "" && t.AuthenticationRef.Kind != kindTriggerAuthentication:
		return fmt.Sprintf("authenticationRef.kind %q is not allowed: name a %s of this namespace", t.AuthenticationRef.Kind, kindTriggerAuthentication)
	}
	return ""
}
