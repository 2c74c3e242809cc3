package function

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

// writing counts the requests that write, and can refuse to apply.
type writing struct {
	client.Client
	writes  int
	refused error
}

func (w *writing) Apply(ctx context.Context, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if w.writes++; w.refused != nil {
		return w.refused
	}
	return w.Client.Apply(ctx, config, options...)
}

func (w *writing) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	w.writes++
	return w.Client.Patch(ctx, object, patch, options...)
}

// child is an object of a Function, with what others may do to it.
type child struct {
	desired   *unstructured.Unstructured
	exclusive []kube.Part
	// change gives a field of ours another value, and add adds one that is nobody's to an exclusive part, if there is one.
	change, add func(map[string]any)
}

// restart applies the child as a process does that has just begun. It returns how many requests wrote.
func (c *child) restart(t *testing.T, w *fixture, refused error) (int, error) {
	t.Helper()
	live := &metav1.PartialObjectMetadata{} // caches have no more of some kinds
	live.SetGroupVersionKind(c.desired.GroupVersionKind())
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(c.desired), live))
	through := &writing{Client: w.Client, refused: refused}
	_, err := kube.NewApplier(through).Apply(t.Context(), c.desired, live, c.exclusive...)
	return through.writes, err
}

func (c *child) live(t *testing.T, w *fixture) *unstructured.Unstructured {
	t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(c.desired.GroupVersionKind())
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(c.desired), live))
	return live
}

func (c *child) edit(t *testing.T, w *fixture, change func(map[string]any)) {
	t.Helper()
	live := c.live(t, w)
	change(live.Object)
	require.NoError(t, w.Update(t.Context(), live, client.FieldOwner("kubectl-edit")))
}

func at(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		if items, ok := object[name].([]any); ok {
			object, _ = items[0].(map[string]any)
			continue
		}
		object, _ = object[name].(map[string]any)
	}
	return object
}

func set(value any, path ...string) func(map[string]any) {
	return func(object map[string]any) { at(object, path[:len(path)-1]...)[path[len(path)-1]] = value }
}

func children(t *testing.T, fn *v1alpha2.Function) map[string]*child {
	t.Helper()
	options := testOptions()
	settings := options.settings()
	code := resources.Code{Source: "Zmlyc3Q=", Runtime: fn.Spec.Runtime, Image: "runtime:1"}
	deployment, err := resources.Deployment(fn, settings, resources.Workload{Code: code, Replicas: new(int32(2))})
	require.NoError(t, err)
	unstructuredOf := func(config any) *unstructured.Unstructured {
		object, err := kube.ToUnstructured(config)
		require.NoError(t, err)
		return object
	}
	return map[string]*child{
		"Deployment": {
			desired: unstructuredOf(deployment), exclusive: []kube.Part{kube.Exclusive{"spec", "template", "spec"}},
			change: set("theirs:1", "spec", "template", "spec", "containers", "image"),
			add:    set("theirs", "spec", "template", "spec", "nodeName"),
		},
		"Service": {
			desired: unstructuredOf(resources.Service(fn)), exclusive: []kube.Part{kube.Exclusive{"spec"}},
			change: set(int64(9999), "spec", "ports", "targetPort"),
			add:    set([]any{"192.0.2.7"}, "spec", "externalIPs"),
		},
		"ScaledObject": {
			desired: resources.ScaledObject(fn, settings.Scaling, settings.Scaling.Defaults, true), exclusive: []kube.Part{kube.Exclusive{"spec"}},
			change: set(int64(77), "spec", "maxReplicaCount"),
			add:    set(int64(7), "spec", "idleReplicaCount"),
		},
		"HorizontalPodAutoscaler": {
			desired: unstructuredOf(resources.HPA(fn)),
			change:  set(int64(77), "spec", "maxReplicas"),
		},
		"Secret": {
			desired: unstructuredOf(resources.RegistrySecret(fn, []byte(`{"auths":{}}`))), exclusive: []kube.Part{kube.Exclusive{"data"}},
			change: set("e30=", "data", ".dockerconfigjson"),
			add:    set("e30=", "data", "more"),
		},
	}
}

const noManagedFields = "managed fields are reset"

// What others do while no controller runs has to be found by the next one, although it does not write everything again.
func TestARestartWritesWhatOthersHaveChangedAndNothingElse(t *testing.T) {
	w := newFixture(t)
	fn := w.create(scaled(0, 5))
	t.Cleanup(func() { forgetFunctions(t) })
	for kind, c := range children(t, fn) {
		_, err := kube.NewApplier(w.Client).Apply(t.Context(), c.desired, nil, c.exclusive...)
		require.NoError(t, err, kind)
		applied := c.live(t, w)
		unchanged := func(what string) {
			t.Helper()
			writes, err := c.restart(t, w, nil)
			require.NoError(t, err, "%s: %s", kind, what)
			require.Zero(t, writes, "%s: %s, and the process after that writes nothing", kind, what)
			require.Equal(t, applied.Object["spec"], c.live(t, w).Object["spec"], "%s: %s", kind, what)
			require.Equal(t, applied.Object["data"], c.live(t, w).Object["data"], "%s: %s", kind, what)
			require.Equal(t, applied.GetLabels(), c.live(t, w).GetLabels(), "%s: %s", kind, what)
		}
		unchanged("it is as it was applied")
		c.edit(t, w, set("theirs", "metadata", "annotations", "their.own/note"))
		unchanged("others may annotate it")

		for what, change := range map[string]func(map[string]any){
			"a value is another":  c.change,
			"a label is gone":     func(object map[string]any) { delete(at(object, "metadata", "labels"), v1alpha2.LabelUUID) },
			"a label is another":  set("theirs", "metadata", "labels", v1alpha2.LabelUUID),
			"it has no owner":     func(object map[string]any) { delete(at(object, "metadata"), "ownerReferences") },
			"something is added":  c.add,
			"the mark is gone":    func(object map[string]any) { delete(at(object, "metadata", "annotations"), kube.AnnotationApplied) },
			"the mark is another": set("0123", "metadata", "annotations", kube.AnnotationApplied),
			noManagedFields:       set([]any{map[string]any{}}, "metadata", "managedFields"),
		} {
			if change == nil {
				continue
			}
			c.edit(t, w, change)
			writes, err := c.restart(t, w, nil)
			require.NoError(t, err, "%s: %s", kind, what)
			require.NotZero(t, writes, "%s: %s", kind, what)
			if what == noManagedFields { // the API server takes what there is for another's, until it is reclaimed
				_, err := c.restart(t, w, nil)
				require.NoError(t, err, "%s: %s", kind, what)
			}
			unchanged(what)
		}

		if c.add != nil { // a process claims what others have added, and ends before it has taken it away
			c.edit(t, w, c.add)
			_, err = c.restart(t, w, errors.New("killed"))
			require.ErrorContains(t, err, "killed", kind)
			writes, err := c.restart(t, w, nil)
			require.NoError(t, err, kind)
			require.NotZero(t, writes, "%s: what is claimed and not taken away is left", kind)
			unchanged("what was added is gone")
		}

		// The mark of what was applied is put back, after a change.
		marked := c.live(t, w).GetAnnotations()[kube.AnnotationApplied]
		c.edit(t, w, c.change)
		c.edit(t, w, set(marked, "metadata", "annotations", kube.AnnotationApplied))
		writes, err := c.restart(t, w, nil)
		require.NoError(t, err, kind)
		require.NotZero(t, writes, "%s: the mark alone proves nothing", kind)
		unchanged("a forged mark")

		c.desired.SetLabels(map[string]string{"team": "prices"})
		writes, err = c.restart(t, w, nil)
		require.NoError(t, err, kind)
		require.NotZero(t, writes, "%s: something else is wanted", kind)
	}
}
