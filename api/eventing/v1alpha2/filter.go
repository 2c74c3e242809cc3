package v1alpha2

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
)

// Filter selects which events of the Subscription's types are delivered. All conditions that are set have to hold. They
// refer to attributes of the CloudEvent, including extensions; an attribute that an event lacks never matches.
type Filter struct {
	// CEL is an expression in the Common Expression Language that is true for the events to deliver. Its variables are
	// "event", a map of the attributes, and "data", the event's JSON data. An event for which it cannot be evaluated,
	// for example because a field is missing, is not delivered.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	CEL string `json:"cel,omitempty"`

	// Exact maps attributes to the values that they must equal.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Exact map[string]string `json:"exact,omitempty"`

	// Prefix maps attributes to the prefixes of their values.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Prefix map[string]string `json:"prefix,omitempty"`

	// Suffix maps attributes to the suffixes of their values.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Suffix map[string]string `json:"suffix,omitempty"`

	// All lists filters that all have to match.
	// +kubebuilder:validation:MaxItems=32
	// +optional
	All []NestedFilter `json:"all,omitempty"`

	// Any lists filters of which at least one has to match.
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Any []NestedFilter `json:"any,omitempty"`

	// Not is a filter that must not match.
	// +optional
	Not *NestedFilter `json:"not,omitempty"`
}

// NestedFilter is a Filter within another. The schema of a resource cannot contain itself, so the API server accepts
// any object here, and the controller reports errors in it.
//
// +kubebuilder:validation:Type=object
// +kubebuilder:pruning:PreserveUnknownFields
type NestedFilter struct {
	Filter `json:"-"`

	// Unread is the original object if it is not a filter; Filter is then empty. It is written back unchanged, and does
	// not prevent other Subscriptions from being read.
	Unread []byte `json:"-"`
}

// deepestNesting bounds the open brackets in a NestedFilter: more than any filter needs that the controller accepts,
// and few enough to decode each level separately.
const deepestNesting = 32

const filterMembers = "a filter has cel, exact, prefix, suffix, all, any and not"

// MarshalJSON encodes the filter.
func (n NestedFilter) MarshalJSON() ([]byte, error) {
	if n.Unread != nil {
		return n.Unread, nil
	}
	return json.Marshal(n.Filter)
}

// UnmarshalJSON decodes the filter. An invalid one is kept in Unread: the API server has accepted it, so an error would
// only hide all Subscriptions.
func (n *NestedFilter) UnmarshalJSON(data []byte) error {
	*n = NestedFilter{}
	for range readFilter(data, &n.Filter) {
		*n = NestedFilter{Unread: bytes.Clone(data)}
		break
	}
	return nil
}

// Problems yields why the object is not a filter, by its members; a member without a name is the object itself.
func (n *NestedFilter) Problems() iter.Seq2[string, string] {
	if n.Unread == nil {
		return func(func(string, string) bool) {}
	}
	return readFilter(n.Unread, &Filter{})
}

// readFilter decodes a filter member by member, and yields each invalid member with the reason.
func readFilter(data []byte, into *Filter) iter.Seq2[string, string] {
	return func(yield func(member, problem string) bool) {
		var written map[string]json.RawMessage
		if nesting(data) > deepestNesting {
			yield("", "is nested too deep; write it flatter, for example as one cel expression")
			return
		}
		if err := json.Unmarshal(data, &written); err != nil || written == nil {
			yield("", "has to be an object; "+filterMembers)
			return
		}
		known := map[string]struct {
			value any
			kind  string
		}{
			"cel":    {&into.CEL, "a text"},
			"exact":  {&into.Exact, "an object of attributes and texts"},
			"prefix": {&into.Prefix, "an object of attributes and texts"},
			"suffix": {&into.Suffix, "an object of attributes and texts"},
			"all":    {&into.All, "a list of filters"},
			"any":    {&into.Any, "a list of filters"},
			"not":    {&into.Not, "a filter"},
		}
		for _, name := range slices.Sorted(maps.Keys(written)) {
			problem := ""
			if member, ok := known[name]; !ok {
				problem = "is not known; " + filterMembers
			} else if json.Unmarshal(written[name], member.value) != nil {
				problem = "has to be " + member.kind
			}
			if problem != "" && !yield(name, problem) {
				return
			}
		}
	}
}

// nesting returns the maximum depth of open brackets.
func nesting(data []byte) int {
	open, deepest, inText, escaped := 0, 0, false, false
	for _, c := range data {
		switch {
		case escaped:
			escaped = false
		case inText && c == '\\':
			escaped = true
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			open++
			deepest = max(deepest, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return deepest
}
