package clusterhome

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
)

func resourceOf(kind string) schema.GroupVersionResource {
	if kind == dashboard.KindFunction {
		return serverlessv1alpha2.GroupVersion.WithResource("functions")
	}
	return eventingv1alpha2.GroupVersion.WithResource("subscriptions")
}

// Written implements dashboard.Author.
func (h *Home) Written(ctx context.Context, _ dashboard.User, ref dashboard.Ref) (*unstructured.Unstructured, error) {
	if err := h.shows(ref.Namespace); err != nil {
		return nil, err
	}
	return h.objects.Get(ctx, resourceOf(ref.Kind), ref.Namespace, ref.Name)
}

// Write implements dashboard.Author, by server-side apply. All edits are tried before one is carried out.
func (h *Home) Write(ctx context.Context, user dashboard.User, edits []dashboard.Edit, options dashboard.WriteOptions) (dashboard.Written, error) {
	var result dashboard.Written
	for _, edit := range edits {
		if err := h.try(ctx, user, edit, options, &result); err != nil {
			return result, err
		}
	}
	if options.Dry || len(result.Refusals) > 0 {
		return result, nil
	}
	for _, edit := range edits {
		if _, err := h.apply(ctx, edit, false, options.Force); err != nil {
			return result, fmt.Errorf("%s %s: %w", edit.Kind, edit.Name, err)
		}
		h.note(ctx, edit.Kind, types.NamespacedName{Namespace: edit.Namespace, Name: edit.Name}, "Applied", "applied")
	}
	return result, nil
}

// try adds what an edit would do, or why it cannot.
func (h *Home) try(ctx context.Context, user dashboard.User, edit dashboard.Edit, options dashboard.WriteOptions, result *dashboard.Written) error {
	before, err := h.Written(ctx, user, edit.Ref)
	if err != nil {
		return err
	}
	if before != nil && options.Create {
		result.Refusals = append(result.Refusals, dashboard.Refusal{
			Ref: edit.Ref, Path: "metadata.name", Message: "there is one of this name already", Remedy: "choose another name, or edit that one",
		})
		return nil
	}
	after, err := h.apply(ctx, edit, true, options.Force)
	if refusals := refusalsOf(edit.Ref, err); len(refusals) > 0 {
		result.Refusals = append(result.Refusals, refusals...)
		return nil
	}
	if err != nil {
		return err
	}
	text := dashboard.Text{Ref: edit.Ref}
	if text.Before, err = yamlOf(before); err == nil {
		text.After, err = yamlOf(after)
	}
	result.Texts = append(result.Texts, text)
	return err
}

func (h *Home) apply(ctx context.Context, edit dashboard.Edit, dry, force bool) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: withoutNil(edit.Fields)}
	object.SetName(edit.Name)
	object.SetNamespace(edit.Namespace)
	return h.objects.ApplyAs(ctx, target.FormManager, resourceOf(edit.Kind), object, dry, force)
}

// withoutNil copies fields without those that are to be removed: server-side apply removes what it owned and is not sent any more.
func withoutNil(fields map[string]any) map[string]any {
	kept := make(map[string]any, len(fields))
	for name, value := range fields {
		if inner, is := value.(map[string]any); is {
			value = withoutNil(inner)
		}
		if value != nil {
			kept[name] = value
		}
	}
	return kept
}

// refusalsOf returns the fields that an API server refuses, nil for another error.
func refusalsOf(ref dashboard.Ref, err error) []dashboard.Refusal {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is {
		return nil
	}
	conflict := apierrors.IsConflict(err)
	if !conflict && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		return nil
	}
	var found []dashboard.Refusal
	if details := status.ErrStatus.Details; details != nil {
		for _, cause := range details.Causes {
			found = append(found, refusalOf(ref, cause, conflict))
		}
	}
	if len(found) == 0 {
		found = append(found, dashboard.Refusal{Ref: ref, Message: status.ErrStatus.Message, Conflict: conflict})
	}
	return found
}

func refusalOf(ref dashboard.Ref, cause metav1.StatusCause, conflict bool) dashboard.Refusal {
	refusal := dashboard.Refusal{Ref: ref, Path: strings.TrimPrefix(cause.Field, "."), Message: cause.Message, Conflict: conflict}
	switch {
	case conflict:
		refusal.Remedy = "change it where that program takes it from, such as Git, or take the field over"
	case cause.Type == metav1.CauseTypeFieldValueRequired:
		refusal.Remedy = "fill the field in"
	}
	return refusal
}

// yamlOf returns an object without what the server adds, empty for none.
func yamlOf(object *unstructured.Unstructured) (string, error) {
	if object == nil {
		return "", nil
	}
	shown := object.DeepCopy().Object
	unstructured.RemoveNestedField(shown, "status")
	for _, field := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		unstructured.RemoveNestedField(shown, "metadata", field)
	}
	return dashboard.YAML(shown)
}
