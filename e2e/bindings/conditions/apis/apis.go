// Package apis contains only those parts of reconciler.io/runtime/apis that the types of servicebinding.io's API need
// to compile. It stores no conditions: the projector and the resolver, which the end-to-end test exercises, read none.
package apis

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionReady is the type of the condition that summarizes the others.
const ConditionReady = "Ready"

// ConditionsAccessor is a status with conditions.
type ConditionsAccessor interface {
	GetConditions() []metav1.Condition
	SetConditions(conditions []metav1.Condition)
}

// ConditionSet replaces the set of a resource's conditions.
type ConditionSet struct{}

// ConditionManager replaces the manager of conditions.
type ConditionManager interface {
	InitializeConditions()
	MarkUnknown(condition, reason, format string, args ...any)
}

// NewLivingConditionSetWithHappyReason returns an empty set.
func NewLivingConditionSetWithHappyReason(string, ...string) ConditionSet { return ConditionSet{} }

// Manage returns a manager without an effect.
func (ConditionSet) Manage(ConditionsAccessor) ConditionManager { return idle{} }

type idle struct{}

func (idle) InitializeConditions() {}

func (idle) MarkUnknown(string, string, string, ...any) {}
