package v1alpha2

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
)

// deepestNesting is how many brackets may be open at a time in a NestedFilter. More than any filter needs that the
// controller accepts, and few enough to read each level by itself.
const deepestNesting = 32

const filterMembers = "a filter has cel, exact, prefix, suffix, all, any and not"

// MarshalJSON writes the filter.
func (n NestedFilter) MarshalJSON() ([]byte, error) {
	if n.Unread != nil {
		return n.Unread, nil
	}
	return json.Marshal(n.Filter)
}

// UnmarshalJSON reads the filter. What is none is kept in Unread: the API server has taken it, so an error would
// only hide all Subscriptions.
func (n *NestedFilter) UnmarshalJSON(data []byte) error {
	*n = NestedFilter{}
	for range readFilter(data, &n.Filter) {
		*n = NestedFilter{Unread: bytes.Clone(data)}
		break
	}
	return nil
}

// Problems says why the object is not a filter, by its members; a member without a name is the object itself.
func (n *NestedFilter) Problems() iter.Seq2[string, string] {
	if n.Unread == nil {
		return func(func(string, string) bool) {}
	}
	return readFilter(n.Unread, &Filter{})
}

// readFilter reads a filter member by member, and yields each member that it cannot read with the reason.
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

// nesting is how many brackets are open at most at a time.
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
