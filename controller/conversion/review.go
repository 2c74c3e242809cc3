package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/conversion"
	"github.com/rouse-run/rouse/internal/fair"
)

var errNoReview = errors.New("the body is not a ConversionReview with a request")

// question is the part of a ConversionReview that the API server sends.
type question struct {
	metav1.TypeMeta `json:",inline"`

	Request *request `json:"request"`
}

type request struct {
	UID               types.UID `json:"uid"`
	DesiredAPIVersion string    `json:"desiredAPIVersion"`
	Objects           objects   `json:"objects"`
}

// objects are encoded objects.
type objects []json.RawMessage

// UnmarshalJSON counts the objects while it decodes.
func (o *objects) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	switch open, err := decoder.Token(); {
	case err != nil:
		return err
	case open == nil:
		return nil
	case open != json.Delim('['):
		return errNoReview
	}
	*o = nil
	for decoder.More() {
		if len(*o) == maxObjects {
			return errObjects
		}
		var each json.RawMessage
		if err := decoder.Decode(&each); err != nil {
			return err
		}
		*o = append(*o, each)
	}
	return nil
}

// review answers a ConversionReview. Work that takes CPU waits for the caller's turn.
func (h *Handler) review(ctx context.Context, caller string, body []byte) (text []byte, err error) {
	asked := &question{}
	if busy := h.turn(ctx, caller, func() { err = json.Unmarshal(body, asked) }); busy != nil {
		return nil, busy
	}
	if errors.Is(err, errObjects) {
		return nil, errObjects
	}
	if err != nil || asked.Request == nil {
		return nil, errNoReview
	}
	answer := &apiextensionsv1.ConversionReview{TypeMeta: asked.TypeMeta, Response: h.answer(ctx, caller, asked.Request)}
	if busy := h.turn(ctx, caller, func() { text, err = json.Marshal(answer) }); busy != nil {
		return nil, busy
	}
	if err != nil {
		return nil, fmt.Errorf("encode the response: %w", err)
	}
	return text, nil
}

// answer converts all objects, or returns the error of the first that fails.
func (h *Handler) answer(ctx context.Context, caller string, asked *request) *apiextensionsv1.ConversionResponse {
	response := &apiextensionsv1.ConversionResponse{UID: asked.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	size := 0
	for _, each := range asked.Objects {
		var converted []byte
		var err error
		if busy := h.turn(ctx, caller, func() { converted, err = h.convert(ctx, each, asked.DesiredAPIVersion) }); busy != nil {
			err = fmt.Errorf("converting took more than %s: request the list in pages (limit)", timeout)
		}
		if size += len(converted); err == nil && size > maxAnswer {
			err = fmt.Errorf("the response has more than %d MiB: request the list in pages (limit)", maxAnswer>>20)
		}
		if err != nil {
			response.ConvertedObjects = nil
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonInvalid}
			break
		}
		response.ConvertedObjects = append(response.ConvertedObjects, rawOf(converted))
	}
	return response
}

func rawOf(content []byte) runtime.RawExtension { return runtime.RawExtension{Raw: content} }

// convert converts one object to a version.
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
		return nil, fmt.Errorf("conversion of kind %.64q is not supported", head.Kind)
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
		err = fmt.Errorf("conversion from %.64q to %.64q is not supported", head.APIVersion, version)
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
	made, report := conversion.Up(old, nil) // a controller copies GitRepositories into Functions
	if err := report.Err(); err != nil {
		return nil, err
	}
	content, err := contentOf(made, raw, upPaths)
	if err != nil {
		return nil, err
	}
	judged := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	if _, errs := h.rules.Admit(ctx, judged); len(errs) > 0 {
		return nil, errors.New("invalid in v1alpha2: " + errs.ToAggregate().Error())
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

// upPaths are fields that both versions have, as paths in v1alpha1 and in v1alpha2.
var upPaths = [][2][]string{
	{strings.Split("spec.env", "."), strings.Split("spec.env", ".")},
	{strings.Split("spec.resources", "."), strings.Split("spec.resourceConfiguration.function.resources", ".")},
	{strings.Split("spec.buildResources", "."), strings.Split("spec.resourceConfiguration.build.resources", ".")},
}

var downPaths = [][2][]string{
	{upPaths[0][1], upPaths[0][0]}, {upPaths[1][1], upPaths[1][0]}, {upPaths[2][1], upPaths[2][0]},
}

// contentOf encodes an object. Unchanged fields keep their form: 1000m would become 1, which looks like a change to
// clients that apply it repeatedly.
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
