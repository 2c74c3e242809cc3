package crdschema

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	schemameta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Definition is one compiled version of a CRD. It is safe for concurrent use.
type Definition struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// Definitions compiles all versions of the given CRDs in YAML.
func Definitions(files [][]byte) (map[schema.GroupVersionKind]*Definition, error) {
	found := map[schema.GroupVersionKind]*Definition{}
	for _, file := range files {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(file, &crd); err != nil {
			return nil, fmt.Errorf("decode a CRD: %w", err)
		}
		for i := range crd.Spec.Versions {
			version := &crd.Spec.Versions[i]
			kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			compiled, err := compile(version.Schema.OpenAPIV3Schema)
			if err != nil {
				return nil, fmt.Errorf("compile the CRD of %s: %w", kind.Kind, err)
			}
			found[kind] = compiled
		}
	}
	return found, nil
}

func compile(written *apiextensionsv1.JSONSchemaProps) (*Definition, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(written, &internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, err
	}
	return &Definition{
		structural: structural,
		schema:     validator,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// Admit sets the defaults of an object, removes unknown fields, and returns the errors that an API server would report
// when the object is created.
func (d *Definition) Admit(ctx context.Context, object *unstructured.Unstructured) (unknown []string, errs field.ErrorList) {
	_, _, unknown, err := schemameta.GetObjectMetaWithOptions(object.Object,
		schemameta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, field.ErrorList{field.Invalid(field.NewPath("metadata"), field.OmitValueType{}, err.Error())}
	}
	tracked := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	unknown = append(unknown, pruning.PruneWithOptions(object.Object, d.structural, true, tracked)...)
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, d.structural)
	defaulting.Default(object.Object, d.structural)

	errs = apivalidation.ValidateObjectMetaAccessor(object, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, object.Object, d.schema)...)
	errs = append(errs, schemameta.Validate(nil, object.Object, d.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, object.Object)...)
	if d.rules != nil && !slices.ContainsFunc(errs, blocks) {
		broken, _ := d.rules.Validate(ctx, nil, d.structural, object.Object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) }) // the rules are in the order of a map
	return unknown, errs
}

// blocks reports whether an error prevents the rules from running, because they rely on the schema.
func blocks(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	default:
		return false
	}
}
