package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// mix are the components that are of the older release while the others are of the newer one.
type mix []string

func components() []string { return []string{"controller", "eventbridge", "gateway", "scaler"} }

// mixes has every component meet every other one in both directions: older with newer and newer with older.
func mixes() []mix {
	return []mix{
		{"controller", "scaler"},
		{"eventbridge", "gateway"},
		{"controller", "eventbridge"},
		{"gateway", "scaler"},
	}
}

func (m mix) String() string {
	if len(m) == 0 {
		return "all newer"
	}
	return "older " + strings.Join(m, " and ")
}

// templates are pods by component.
type templates map[string]corev1.PodTemplateSpec

// remember keeps the pods that the installed chart has the components be.
func (s *stage) remember(ctx context.Context, as *templates) error {
	*as = templates{}
	for _, component := range components() {
		deployment, err := s.deployment(ctx, component)
		if err != nil {
			return err
		}
		(*as)[component] = deployment.Spec.Template
	}
	return nil
}

func (s *stage) deployment(ctx context.Context, component string) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: framework.System, Name: name + "-" + component}
	if err := s.cluster.Get(ctx, key, deployment); err != nil {
		return nil, fmt.Errorf("find %s: %w", key.Name, err)
	}
	return deployment, nil
}

// set has the components of the mix run as in the older release and the others as in the newer one, and waits until no other pod is
// left that is not ending.
func (s *stage) set(ctx context.Context, mix mix) error {
	for _, component := range components() {
		deployment, err := s.deployment(ctx, component)
		if err != nil {
			return err
		}
		before := deployment.DeepCopy()
		deployment.Spec.Template = s.newer[component]
		if slices.Contains(mix, component) {
			deployment.Spec.Template = s.older[component]
		}
		if err := s.cluster.Patch(ctx, deployment, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("change %s: %w", deployment.Name, err)
		}
	}
	for _, component := range components() {
		err := framework.Await(ctx, 2*time.Minute, component+" to be rolled out", func(ctx context.Context) (bool, error) {
			deployment, err := s.deployment(ctx, component)
			return err == nil && rolledOut(deployment), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func rolledOut(deployment *appsv1.Deployment) bool {
	wanted, status := ptr.Deref(deployment.Spec.Replicas, 1), deployment.Status
	return status.ObservedGeneration >= deployment.Generation &&
		status.UpdatedReplicas == wanted && status.Replicas == wanted && status.AvailableReplicas == wanted
}
