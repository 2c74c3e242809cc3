package crdcompat

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// compareLimits finds limits that are new or narrower. A limit that is gone, or wider, allows more.
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

// compareRules finds rules that are new. Nobody can say of two rules which one is stricter, so one that was changed is new.
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
