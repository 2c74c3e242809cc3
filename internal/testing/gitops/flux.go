package gitops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// FieldManager is that of Flux' kustomize-controller.
const FieldManager = client.FieldOwner("kustomize-controller")

// Commit are the objects of one revision, as they are written in Git.
type Commit []*unstructured.Unstructured

// NewCommit reads manifests into a namespace.
func NewCommit(t testing.TB, namespace string, manifests ...string) Commit {
	t.Helper()
	var c Commit
	for _, manifest := range manifests {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(manifest), object))
		object.SetNamespace(namespace)
		c = append(c, object)
	}
	return c
}

// Apply does what kustomize-controller does with a new revision.
func (c Commit) Apply(ctx context.Context, to client.Client) error {
	for _, object := range c {
		if _, err := apply(ctx, to, object); err != nil {
			return err
		}
	}
	return nil
}

func apply(ctx context.Context, to client.Client, object *unstructured.Unstructured, options ...client.ApplyOption) (*unstructured.Unstructured, error) {
	applied := object.DeepCopy()
	options = append(options, FieldManager, client.ForceOwnership)
	if err := to.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), options...); err != nil {
		return nil, fmt.Errorf("apply %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return applied, nil
}

// Drift is how the cluster differs from the revision, empty if it does not: kustomize-controller compares what there is with the answer to
// a dry run, but for the status and what the API server alone writes. Unlike it this compares all metadata.
func (c Commit) Drift(ctx context.Context, to client.Client) (string, error) {
	var all strings.Builder
	for _, object := range c {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		if err := to.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
			return "", fmt.Errorf("get %s %q: %w", object.GetKind(), object.GetName(), err)
		}
		dry, err := apply(ctx, to, object, client.DryRunAll)
		if err != nil {
			return "", err
		}
		all.WriteString(cmp.Diff(lasting(live), lasting(dry)))
	}
	return all.String(), nil
}

// lasting is an object without its status and what changes with that.
func lasting(object *unstructured.Unstructured) map[string]any {
	kept := object.DeepCopy()
	unstructured.RemoveNestedField(kept.Object, "status")
	kept.SetManagedFields(nil)
	kept.SetResourceVersion("")
	return kept.Object
}

// RequireNoDrift applies the commit as many times, with that time between them, while meanwhile makes the controllers write. No dry run may
// find a difference, and no spec may become another generation.
func (c Commit) RequireNoDrift(t testing.TB, to client.Client, times int, every time.Duration, meanwhile func(round int)) {
	t.Helper()
	before := c.read(t, to, generation)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for round := range times {
		drift, err := c.Drift(t.Context(), to)
		require.NoError(t, err)
		require.Empty(t, drift, "live (-), and as applied (+)")
		require.NoError(t, c.Apply(t.Context(), to))
		meanwhile(round)
		<-ticker.C
	}
	require.Equal(t, before, c.read(t, to, generation), "what was applied, or a controller, has changed a spec")
}

// RequireQuiet applies the commit as many times, with that time between them, and nothing is written meanwhile: not by the API server because
// of what is applied, and not by a controller because of that. What is under way before may end first.
func (c Commit) RequireQuiet(t testing.TB, to client.Client, times int, every time.Duration) {
	t.Helper()
	for end := time.Now().Add(quietTimeout); ; {
		before := c.read(t, to, version)
		c.RequireNoDrift(t, to, times, every, func(int) {})
		after := c.read(t, to, version)
		if slices.Equal(before, after) {
			return
		}
		if time.Now().After(end) {
			require.Equal(t, before, after, "somebody goes on writing")
		}
	}
}

// quietTimeout is how long statuses may take until they stay as they are.
const quietTimeout = 2 * time.Minute

func generation(live *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s: generation %d", live.GetKind(), live.GetName(), live.GetGeneration())
}

func version(live *unstructured.Unstructured) string {
	return generation(live) + ", resourceVersion " + live.GetResourceVersion()
}

// read describes each object as it is.
func (c Commit) read(t testing.TB, from client.Client, describe func(*unstructured.Unstructured) string) []string {
	t.Helper()
	var all []string
	for _, object := range c {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		require.NoError(t, from.Get(t.Context(), client.ObjectKeyFromObject(object), live))
		all = append(all, describe(live))
	}
	return all
}
