package images

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// page is how many objects are read at a time.
const page = 200

// digests are those that somebody names.
type digests map[string]bool

func (d digests) note(references ...string) {
	for _, reference := range references {
		if digest := digestOf(reference); digest != "" {
			d[digest] = true
		}
	}
}

func (d digests) notePods(template corev1.PodTemplateSpec) {
	for i := range template.Spec.Containers {
		d.note(template.Spec.Containers[i].Image)
	}
	for i := range template.Spec.InitContainers {
		d.note(template.Spec.InitContainers[i].Image)
	}
}

// usage collects what Functions, Deployments and ReplicaSets name. The latter two are read from the API server,
// since caches leave out what pods are made of.
func usage(ctx context.Context, live client.Reader) (digests, error) {
	used := digests{}
	functions, deployments, sets := &v1alpha2.FunctionList{}, &appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}
	ours := client.MatchingLabels{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy}
	err := errors.Join(
		eachPage(ctx, live, functions, func() {
			for i := range functions.Items {
				if build := functions.Items[i].Status.Build; build != nil {
					used.note(build.Image)
				}
			}
		}),
		eachPage(ctx, live, deployments, func() {
			for i := range deployments.Items {
				used.notePods(deployments.Items[i].Spec.Template)
			}
		}, ours),
		eachPage(ctx, live, sets, func() {
			for i := range sets.Items {
				used.notePods(sets.Items[i].Spec.Template)
			}
		}, ours))
	if err != nil {
		return nil, fmt.Errorf("list who uses images: %w", err)
	}
	return used, nil
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
