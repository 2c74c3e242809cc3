// Package apis has as much of reconciler.io/runtime/apis as the types of servicebinding.io's API need to compile. It
// keeps no conditions: the projector and the resolver, which the end-to-end test is about, read none.
package apis

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionReady is the type of the condition that sums up the others.
const ConditionReady = "Ready"

// ConditionsAccessor is a status with conditions.
type ConditionsAccessor interface {
	GetConditions() []metav1.Condition
	SetConditions(conditions []metav1.Condition)
}

// ConditionSet would be the conditions that a resource has.
type ConditionSet struct{}

// ConditionManager would change them.
type ConditionManager interface {
	InitializeConditions()
	MarkUnknown(condition, reason, format string, args ...any)
}

// NewLivingConditionSetWithHappyReason would be the set of a resource that goes on living.
func NewLivingConditionSetWithHappyReason(string, ...string) ConditionSet { return ConditionSet{} }

// Manage gives a manager that does nothing.
func (ConditionSet) Manage(ConditionsAccessor) ConditionManager { return idle{} }

type idle struct{}

func (idle) InitializeConditions() {}

func (idle) MarkUnknown(string, string, string, ...any) {}
