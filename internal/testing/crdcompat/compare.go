package crdcompat

import (
	"cmp"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Compare lists what a CRD no longer has, or has become stricter in.
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

// Undescribed takes from a CRD what is for readers, so that a change of words is none.
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
