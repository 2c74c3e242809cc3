package target

import (
	"context"
	"fmt"
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/rouse-run/rouse/cli/exit"
)

// Kubernetes reads a cluster's objects, for commands that examine the cluster itself. Its errors name the right that is missing.
type Kubernetes struct{ c *cluster }

// Kubernetes returns the cluster of a connection; false for a local mode.
func (c *Connection) Kubernetes() (Kubernetes, bool) {
	of, ok := c.Target.(*cluster)
	return Kubernetes{of}, ok
}

// RouseNamespace is the namespace in which Rouse is expected.
func (k Kubernetes) RouseNamespace() string { return k.c.options.RouseNamespace }

// ListOf returns the objects of a resource with the labels, in a namespace or in all for "", at most the limit.
func ListOf[T any](ctx context.Context, k Kubernetes, resource schema.GroupVersionResource, namespace, labels string, limit int64) ([]T, error) {
	list, err := k.c.objects.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels, Limit: limit})
	if err != nil {
		return nil, k.c.explain(err, "list", resource.Resource, namespace)
	}
	return intoAll[T](list.Items)
}

// Served returns the versions of a resource that the cluster serves.
func (k Kubernetes) Served(ctx context.Context, resource schema.GroupResource) ([]string, error) {
	return k.c.served(ctx, resource.WithVersion(""))
}

// Versions returns the versions of an API group that the cluster serves.
func (k Kubernetes) Versions(ctx context.Context, group string) ([]string, error) {
	var found metav1.APIGroup
	if err := k.c.discover(ctx, "/apis/"+group, &found); err != nil {
		return nil, err
	}
	var versions []string
	for _, each := range found.Versions {
		versions = append(versions, each.Version)
	}
	return versions, nil
}

// May reports whether the user has a right.
func (k Kubernetes) May(ctx context.Context, right authorizationv1.ResourceAttributes) (bool, error) {
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec:     authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&review)
	if err != nil {
		return false, fmt.Errorf("write a review of rights: %w", err)
	}
	resource := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
	answer, err := k.c.objects.Resource(resource).Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	if err != nil {
		return false, k.c.explain(err, "create", resource.Resource, "")
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}

// ServerVersion is the version of an API server, and its time when it answered.
type ServerVersion struct {
	Version string
	Time    time.Time // zero when the server does not say
}

// Version returns the version of the API server.
func (k Kubernetes) Version(ctx context.Context) (ServerVersion, error) {
	var found struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := k.c.discover(ctx, "/version", &found); err != nil {
		return ServerVersion{}, err
	}
	at, err := k.clock(ctx)
	return ServerVersion{Version: found.GitVersion, Time: at}, err
}

// clock returns the time in the header of an answer, which has whole seconds.
func (k Kubernetes) clock(ctx context.Context) (time.Time, error) {
	base, _, err := rest.DefaultServerUrlFor(k.c.config)
	if err != nil {
		return time.Time{}, fmt.Errorf("use the kubeconfig: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the clock of %s: %w", k.c.name, err)
	}
	response, err := k.c.http.Do(request)
	if err != nil {
		return time.Time{}, exit.Errorf(exit.Unreachable, "%s does not answer: %w", k.c.name, withoutURL(err))
	}
	_ = response.Body.Close()
	at, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // without a time there is nothing to compare
	}
	return at, nil
}
