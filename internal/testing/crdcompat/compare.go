package crdcompat

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// Compare lists removals and restrictions between two versions of a CRD.
func Compare(before, now *apiextensionsv1.CustomResourceDefinition) []string {
	var found []string
	if before.Name != now.Name || before.Spec.Scope != now.Spec.Scope || before.Spec.Names.Kind != now.Spec.Names.Kind {
		found = append(found, "another name, kind or scope")
	}
	for _, short := range before.Spec.Names.ShortNames {
		if !slices.Contains(now.Spec.Names.ShortNames, short) {
			found = append(found, "no short name "+short)
		}
	}
	for i := range before.Spec.Versions {
		older := &before.Spec.Versions[i]
		at := slices.IndexFunc(now.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == older.Name })
		if at < 0 {
			found = append(found, "no version "+older.Name)
			continue
		}
		found = append(found, compareVersions(older, &now.Spec.Versions[at])...)
	}
	return found
}

func compareVersions(before, now *apiextensionsv1.CustomResourceDefinitionVersion) []string {
	var found []string
	if before.Served && !now.Served {
		found = append(found, before.Name+" is not served")
	}
	had, has := cmp.Or(before.Subresources, &apiextensionsv1.CustomResourceSubresources{}), cmp.Or(now.Subresources, &apiextensionsv1.CustomResourceSubresources{})
	if had.Status != nil && has.Status == nil {
		found = append(found, before.Name+" has no subresource status")
	}
	if had.Scale != nil && (has.Scale == nil || has.Scale.SpecReplicasPath != had.Scale.SpecReplicasPath) {
		found = append(found, before.Name+" has no subresource scale, or another one")
	}
	for _, selectable := range before.SelectableFields {
		if !slices.Contains(now.SelectableFields, selectable) {
			found = append(found, fmt.Sprintf("%s cannot be selected by %s", before.Name, selectable.JSONPath))
		}
	}
	fields := fields{}
	fields.compare(before.Name, before.Schema.OpenAPIV3Schema, now.Schema.OpenAPIV3Schema)
	return append(found, fields.found...)
}

// Undescribed removes descriptions from a CRD, so that a change of their words is no difference.
func Undescribed(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	bare := crd.DeepCopy()
	bare.Annotations = nil
	for i := range bare.Spec.Versions {
		version := &bare.Spec.Versions[i]
		version.AdditionalPrinterColumns = nil
		undescribe(version.Schema.OpenAPIV3Schema)
	}
	return bare
}

func undescribe(schema *apiextensionsv1.JSONSchemaProps) {
	schema.Description = ""
	for name, property := range schema.Properties {
		undescribe(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		undescribe(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		undescribe(schema.AdditionalProperties.Schema)
	}
}

type schema = apiextensionsv1.JSONSchemaProps

// fields collects findings while two schemas are walked.
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

// shape describes how a value is encoded and merged.
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
			f.add(path+"."+name, "is missing")
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
		f.add(path, "is missing")
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

// compareLimits finds new or narrower limits. Removed or wider limits are allowed.
func (f *fields) compareLimits(path string, before, now *schema) {
	f.atLeast(path, "minimum", before.Minimum, now.Minimum)
	f.atLeast(path, "minLength", number(before.MinLength), number(now.MinLength))
	f.atLeast(path, "minItems", number(before.MinItems), number(now.MinItems))
	f.atLeast(path, "minProperties", number(before.MinProperties), number(now.MinProperties))
	f.atMost(path, "maximum", before.Maximum, now.Maximum)
	f.atMost(path, "maxLength", number(before.MaxLength), number(now.MaxLength))
	f.atMost(path, "maxItems", number(before.MaxItems), number(now.MaxItems))
	f.atMost(path, "maxProperties", number(before.MaxProperties), number(now.MaxProperties))
	for name, strict := range map[string]bool{
		"exclusive minimum": now.ExclusiveMinimum && !before.ExclusiveMinimum,
		"exclusive maximum": now.ExclusiveMaximum && !before.ExclusiveMaximum,
		"unique items":      now.UniqueItems && !before.UniqueItems,
	} {
		if strict {
			f.add(path, "has %s", name)
		}
	}
	if now.MultipleOf != nil && ptr.Deref(before.MultipleOf, 0) != *now.MultipleOf {
		f.add(path, "is a multiple of %v", *now.MultipleOf)
	}
}

func (f *fields) atLeast(path, name string, before, now *float64) {
	if now != nil && (before == nil || *now > *before) {
		f.add(path, "has %s %v", name, *now)
	}
}

func (f *fields) atMost(path, name string, before, now *float64) {
	if now != nil && (before == nil || *now < *before) {
		f.add(path, "has %s %v", name, *now)
	}
}

func number(limit *int64) *float64 {
	if limit == nil {
		return nil
	}
	return new(float64(*limit))
}

func (f *fields) compareValues(path string, before, now *schema) {
	if now.Pattern != before.Pattern && now.Pattern != "" {
		f.add(path, "has the pattern %s", now.Pattern)
	}
	if len(now.Enum) == 0 {
		return
	}
	if len(before.Enum) == 0 {
		f.add(path, "has an enum")
	}
	for _, value := range before.Enum {
		if !slices.ContainsFunc(now.Enum, func(v apiextensionsv1.JSON) bool { return text(&v) == text(&value) }) {
			f.add(path, "may not be %s", text(&value))
		}
	}
}

// compareRules finds new rules. A changed rule counts as new, because it cannot be decided which of two rules is
// stricter.
func (f *fields) compareRules(path string, before, now *schema) {
	for _, rule := range now.XValidations {
		if !slices.ContainsFunc(before.XValidations, func(r apiextensionsv1.ValidationRule) bool { return r.Rule == rule.Rule }) {
			f.add(path, "has the rule %s", rule.Rule)
		}
	}
	for name, terms := range map[string][2][]schema{
		"allOf": {before.AllOf, now.AllOf}, "anyOf": {before.AnyOf, now.AnyOf}, "oneOf": {before.OneOf, now.OneOf},
	} {
		if len(terms[1]) > 0 && !same(terms[0], terms[1]) {
			f.add(path, "has another %s", name)
		}
	}
	if now.Not != nil && !same(before.Not, now.Not) {
		f.add(path, "has another not")
	}
}
