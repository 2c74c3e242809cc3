package target

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/skew"
)

// notServed says why a resource is not found: Rouse is not installed, or is of a release with another version of it.
func (c *cluster) notServed(ctx context.Context, people string, resource schema.GroupVersionResource) error {
	served, err := c.served(ctx, resource)
	if err != nil {
		return err
	}
	if err := skew.Resource(resource.Resource, resource.Version, served); err != nil {
		return exit.With(exit.Unreachable, err)
	}
	return exit.Errorf(exit.Unreachable, "%s has no %s: Rouse is not installed there", c.name, people)
}

// served lists the versions of a resource that the cluster serves.
func (c *cluster) served(ctx context.Context, resource schema.GroupVersionResource) ([]string, error) {
	var group metav1.APIGroup
	if err := c.discover(ctx, "/apis/"+resource.Group, &group); err != nil {
		return nil, err
	}
	var versions []string
	for _, version := range group.Versions {
		var list metav1.APIResourceList
		if err := c.discover(ctx, "/apis/"+version.GroupVersion, &list); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource }) {
			versions = append(versions, version.Version)
		}
	}
	return versions, nil
}

// discover reads what the API server says of itself at a path. What it does not have stays empty.
func (c *cluster) discover(ctx context.Context, path string, into any) error {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(c.config, c.http)
	if err != nil {
		return exit.Errorf(exit.Unreachable, "use the kubeconfig: %w", err)
	}
	text, err := client.RESTClient().Get().AbsPath(path).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return c.explain(err, "get", path, "")
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read what the API server sent: %w", err)
	}
	return nil
}
