package crdcompat

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

type schema = apiextensionsv1.JSONSchemaProps

// fields collects what was found while two schemas are walked.
type fields struct{ found []string }

func (f *fields) add(path, format string, args ...any) {
	f.found = append(f.found, path+" "+fmt.Sprintf(format, args...))
}

func (f *fields) compare(path string, before, now *schema) {
	if shape(before) != shape(now) {
		f.add(path, "is %q, and was %q", shape(now), shape(before))
		return
	}
	if before.Nullable && !now.Nullable {
		f.add(path, "may not be null")
	}
	if text(before.Default) != text(now.Default) {
		f.add(path, "has another default: %s", text(now.Default))
	}
	f.compareLimits(path, before, now)
	f.compareValues(path, before, now)
	f.compareRules(path, before, now)
	f.compareChildren(path, before, now)
}

// shape is what decides how a value is written and merged.
func shape(s *schema) string {
	parts := []string{s.Type, s.Format, ptr.Deref(s.XListType, ""), ptr.Deref(s.XMapType, ""), strings.Join(s.XListMapKeys, ",")}
	for what, is := range map[string]bool{
		"or integer": s.XIntOrString, "with unknown fields": ptr.Deref(s.XPreserveUnknownFields, false), "resource": s.XEmbeddedResource,
	} {
		if is {
			parts = append(parts, what)
		}
	}
	slices.Sort(parts[5:])
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}

func (f *fields) compareChildren(path string, before, now *schema) {
	for _, name := range slices.Sorted(maps.Keys(before.Properties)) {
		older := before.Properties[name]
		newer, ok := now.Properties[name]
		if !ok {
			f.add(path+"."+name, "is gone")
			continue
		}
		f.compare(path+"."+name, &older, &newer)
	}
	for _, name := range now.Required {
		if property := now.Properties[name]; !slices.Contains(before.Required, name) && property.Default == nil {
			f.add(path+"."+name, "is required")
		}
	}
	f.compareChild(path+"[]", items(before), items(now))
	f.compareChild(path+"{}", additional(before), additional(now))
}

func (f *fields) compareChild(path string, before, now *schema) {
	switch {
	case before == nil:
	case now == nil:
		f.add(path, "is gone")
	default:
		f.compare(path, before, now)
	}
}

func items(s *schema) *schema {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

func additional(s *schema) *schema {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Schema
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) }

func text(value *apiextensionsv1.JSON) string {
	if value == nil {
		return "none"
	}
	return string(value.Raw)
}
