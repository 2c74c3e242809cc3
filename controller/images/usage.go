package images

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// page is how many objects are read at a time.
const page = 200

// usage collects the digests that Functions, Deployments and ReplicaSets name. The latter two are read from the
// API server, since caches leave out what pods are made of.
func usage(ctx context.Context, live client.Reader) (map[string]bool, error) {
	used := map[string]bool{}
	note := func(references ...string) {
		for _, reference := range references {
			if digest := digestOf(reference); digest != "" {
				used[digest] = true
			}
		}
	}
	pods := func(spec corev1.PodSpec) {
		for i := range spec.Containers {
			note(spec.Containers[i].Image)
		}
		for i := range spec.InitContainers {
			note(spec.InitContainers[i].Image)
		}
	}
	functions := &v1alpha2.FunctionList{}
	deployments, sets := &appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}
	ours := client.MatchingLabels{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy}
	for _, read := range []struct {
		list    client.ObjectList
		options []client.ListOption
		note    func()
	}{
		{functions, nil, func() {
			for i := range functions.Items {
				if build := functions.Items[i].Status.Build; build != nil {
					note(build.Image)
				}
			}
		}},
		{deployments, []client.ListOption{ours}, func() {
			for i := range deployments.Items {
				pods(deployments.Items[i].Spec.Template.Spec)
			}
		}},
		{sets, []client.ListOption{ours}, func() {
			for i := range sets.Items {
				pods(sets.Items[i].Spec.Template.Spec)
			}
		}},
	} {
		for {
			options := append([]client.ListOption{client.Limit(page), client.Continue(read.list.GetContinue())}, read.options...)
			if err := live.List(ctx, read.list, options...); err != nil {
				return nil, fmt.Errorf("list who uses images: %w", err)
			}
			read.note()
			if read.list.GetContinue() == "" {
				break
			}
		}
	}
	return used, nil
}
