package filter

import (
	"maps"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// condition compares one attribute of an event with a text.
type condition struct {
	name, want string
	holds      func(value, want string) bool
}

func (c condition) matches(e *cloudevent.Event) bool {
	value, ok := e.Attribute(c.name)
	return ok && c.holds(value, c.want)
}

func (c *compiler) conditions(path string, f *v1alpha2.Filter) []condition {
	forms := []struct {
		name       string
		attributes map[string]string
		holds      func(value, want string) bool
	}{
		{"exact", f.Exact, func(value, want string) bool { return value == want }},
		{"prefix", f.Prefix, strings.HasPrefix},
		{"suffix", f.Suffix, strings.HasSuffix},
	}
	var conditions []condition
	for _, form := range forms {
		place := path + "." + form.name
		if len(form.attributes) > maxAttributes {
			c.report("%s: has %d attributes; at most %d are allowed", place, len(form.attributes), maxAttributes)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(form.attributes)) {
			want := form.attributes[name]
			if c.checkAttribute(place, name, want) {
				conditions = append(conditions, condition{name: name, want: want, holds: form.holds})
			}
		}
	}
	c.size.conditions += len(conditions)
	return conditions
}

func (c *compiler) checkAttribute(place, name, want string) bool {
	switch {
	case name == "data":
		c.report("%s.data: data is not an attribute; compare it in cel, for example data.amount > 100", place)
	case !isAttributeName(name):
		c.report("%s.%s: is not the name of an attribute; use lower-case letters and digits only", place, clip(name))
	case want == "":
		c.report("%s.%s: is empty; name the text to compare with, or remove it; "+
			"whether an event has an attribute says cel, for example %q in event", place, clip(name), clip(name))
	default:
		return true
	}
	return false
}

func isAttributeName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}
