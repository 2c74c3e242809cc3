package v1alpha2

// Filter says which events of the Subscription's types are delivered. All conditions that are set have to hold.
// Attributes are those of the CloudEvent, extensions included; one that an event does not have never matches.
type Filter struct {
	// CEL is an expression in the Common Expression Language that is true for the events to deliver. It knows
	// "event", a map of the attributes, and "data", the event's JSON data. An event that it cannot be evaluated
	// for, for example because a field is missing, is not delivered.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	CEL string `json:"cel,omitempty"`

	// Exact are attributes that have to be equal to the value.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Exact map[string]string `json:"exact,omitempty"`

	// Prefix are attributes that have to begin with the value.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Prefix map[string]string `json:"prefix,omitempty"`

	// Suffix are attributes that have to end with the value.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Suffix map[string]string `json:"suffix,omitempty"`

	// All are filters that all have to match.
	// +kubebuilder:validation:MaxItems=32
	// +optional
	All []NestedFilter `json:"all,omitempty"`

	// Any are filters of which at least one has to match.
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Any []NestedFilter `json:"any,omitempty"`

	// Not is a filter that must not match.
	// +optional
	Not *NestedFilter `json:"not,omitempty"`
}

// NestedFilter is a Filter within another. The schema of a resource cannot contain itself, so the API server takes
// any object here, and the controller reports what is wrong with it.
//
// +kubebuilder:validation:Type=object
// +kubebuilder:pruning:PreserveUnknownFields
type NestedFilter struct {
	Filter `json:"-"`

	// Unread is the object as it was written if it is not a filter; Filter is empty then. It is written back as it
	// was, and never keeps the Subscriptions beside it from being read.
	Unread []byte `json:"-"`
}
