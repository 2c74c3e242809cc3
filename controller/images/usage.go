package images

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// page is how many objects are read at a time.
const page = 200

func (n needs) note(references ...string) {
	for _, reference := range references {
		if digest := digestOf(reference); digest != "" {
			n.digests[digest] = true
		}
	}
}

func (n needs) notePods(template corev1.PodTemplateSpec) {
	for i := range template.Spec.Containers {
		n.note(template.Spec.Containers[i].Image)
	}
	for i := range template.Spec.InitContainers {
		n.note(template.Spec.InitContainers[i].Image)
	}
}

// noteFunction takes what its status names, and all that it has while a build of it has ended and is not noted yet.
func (n needs) noteFunction(fn *v1alpha2.Function) {
	if fn.Status.Build != nil {
		n.note(fn.Status.Build.Image)
	}
	if meta.IsStatusConditionPresentAndEqual(fn.Status.Conditions, v1alpha2.ConditionBuildReady, metav1.ConditionUnknown) {
		n.building[client.ObjectKeyFromObject(fn)] = true
	}
}

// usage collects what runtimes, Functions, Deployments and ReplicaSets name. All are read from the API server, since
// caches leave out what pods are made of and may be late.
func usage(ctx context.Context, live client.Reader, runtimes []string, in ...client.ListOption) (needs, error) {
	found := needs{digests: map[string]bool{}, bases: map[string]bool{}, building: map[types.NamespacedName]bool{}}
	for _, image := range runtimes {
		found.bases[identifierOf(image)] = true
	}
	functions, deployments, sets := &v1alpha2.FunctionList{}, &appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}
	ours := client.MatchingLabels{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy}
	err := errors.Join(
		eachPage(ctx, live, functions, func() {
			for i := range functions.Items {
				found.noteFunction(&functions.Items[i])
			}
		}, in...),
		eachPage(ctx, live, deployments, func() {
			for i := range deployments.Items {
				found.notePods(deployments.Items[i].Spec.Template)
			}
		}, append(slices.Clone(in), ours)...),
		eachPage(ctx, live, sets, func() {
			for i := range sets.Items {
				found.notePods(sets.Items[i].Spec.Template)
			}
		}, append(slices.Clone(in), ours)...))
	if err != nil {
		return needs{}, fmt.Errorf("list who uses images: %w", err)
	}
	return found, nil
}

// eachPage reads a list in parts and calls note after each.
func eachPage(ctx context.Context, live client.Reader, list client.ObjectList, note func(), options ...client.ListOption) error {
	for {
		if err := live.List(ctx, list, append(options, client.Limit(page), client.Continue(list.GetContinue()))...); err != nil {
			return err
		}
		note()
		if list.GetContinue() == "" {
			return nil
		}
	}
}
