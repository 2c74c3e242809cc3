// Package v1alpha1 contains the resources of Rouse's own API group, rouse.run: Schedules, which publish events at times.
//
// It owns the schema, its defaults and bounds, and the condition types and reasons of the status. The schema checks what
// can be checked without a calendar; the rules of internal/schedule check the rest, and the controller reports them in
// the status.
//
// +kubebuilder:object:generate=true
// +groupName=rouse.run
package v1alpha1
