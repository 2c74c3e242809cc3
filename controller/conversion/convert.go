package conversion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/conversion"
	"github.com/rouse-run/rouse/internal/fair"
)

func rawOf(content []byte) runtime.RawExtension { return runtime.RawExtension{Raw: content} }

// convert writes one object in a version.
func (h *Handler) convert(ctx context.Context, raw []byte, version string) ([]byte, error) {
	shape := fair.JSONCounter{Limits: fair.JSONLimits{Values: maxObjectValues, Depth: maxDepth}}
	if len(raw) > maxObject || !shape.Add(raw) {
		return nil, fmt.Errorf("an object has more than %d MiB or %d values, or they are nested too deeply", maxObject>>20, maxObjectValues)
	}
	head := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(raw, head); err != nil {
		return nil, fmt.Errorf("decode an object: %w", err)
	}
	if head.Kind != "Function" {
		return nil, fmt.Errorf("there is no conversion of %.64q", head.Kind)
	}
	var converted []byte
	var err error
	switch {
	case head.APIVersion == version:
		return raw, nil
	case head.APIVersion == v1alpha1.GroupVersion.String() && version == v1alpha2.GroupVersion.String():
		converted, err = h.up(ctx, raw)
	case head.APIVersion == v1alpha2.GroupVersion.String() && version == v1alpha1.GroupVersion.String():
		converted, err = down(raw)
	default:
		err = fmt.Errorf("there is no conversion from %.64q to %.64q", head.APIVersion, version)
	}
	if err != nil {
		return nil, fmt.Errorf("convert Function %s: %w", types.NamespacedName{Namespace: head.Namespace, Name: head.Name}, err)
	}
	return converted, nil
}

func (h *Handler) up(ctx context.Context, raw []byte) ([]byte, error) {
	old := &v1alpha1.Function{}
	if err := json.Unmarshal(raw, old); err != nil {
		return nil, fmt.Errorf("decode it: %w", err)
	}
	made, report := conversion.Up(old, nil) // GitRepositories are written into Functions by a controller
	if err := report.Err(); err != nil {
		return nil, err
	}
	content, err := contentOf(made, raw, upPaths)
	if err != nil {
		return nil, err
	}
	judged := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	if _, errs := h.rules.Admit(ctx, judged); len(errs) > 0 {
		return nil, errors.New("v1alpha2 refuses it: " + errs.ToAggregate().Error())
	}
	return json.Marshal(content)
}

func down(raw []byte) ([]byte, error) {
	fn := &v1alpha2.Function{}
	if err := json.Unmarshal(raw, fn); err != nil {
		return nil, fmt.Errorf("decode it: %w", err)
	}
	content, err := contentOf(conversion.Down(fn), raw, downPaths)
	if err != nil {
		return nil, err
	}
	return json.Marshal(content)
}

// upPaths are fields that both versions have, as path in v1alpha1 and in v1alpha2.
var upPaths = [][2][]string{
	{strings.Split("spec.env", "."), strings.Split("spec.env", ".")},
	{strings.Split("spec.resources", "."), strings.Split("spec.resourceConfiguration.function.resources", ".")},
	{strings.Split("spec.buildResources", "."), strings.Split("spec.resourceConfiguration.build.resources", ".")},
}

var downPaths = [][2][]string{
	{upPaths[0][1], upPaths[0][0]}, {upPaths[1][1], upPaths[1][0]}, {upPaths[2][1], upPaths[2][0]},
}

// contentOf encodes an object. Fields that are as they were keep their form: 1000m would become 1, which looks like a change to who
// applies it again and again.
func contentOf(made any, raw []byte, paths [][2][]string) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made)
	if err != nil {
		return nil, fmt.Errorf("encode it: %w", err)
	}
	before := map[string]any{}
	if err := json.Unmarshal(raw, &before); err != nil {
		return nil, fmt.Errorf("decode it: %w", err)
	}
	for _, path := range paths {
		value, found, err := unstructured.NestedFieldNoCopy(before, path[0]...)
		if err != nil || !found {
			continue
		}
		if _, found, err := unstructured.NestedFieldNoCopy(content, path[1]...); err != nil || !found {
			continue
		}
		last := len(path[1]) - 1
		parent, _, err := unstructured.NestedFieldNoCopy(content, path[1][:last]...)
		if fields, ok := parent.(map[string]any); ok && err == nil {
			fields[path[1][last]] = value
		}
	}
	return content, nil
}
