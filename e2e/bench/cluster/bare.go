package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const bareName = "bare"

// bareTwin is a Deployment with the very same pod as a Function's, which nothing but scale scales.
type bareTwin struct {
	cluster   *framework.Cluster
	namespace string
}

// create makes the twin at zero, under labels that no other object selects.
func (b bareTwin) create(ctx context.Context, original *appsv1.Deployment) error {
	labels := map[string]string{"app": bareName}
	twin := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: bareName, Namespace: original.Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: *original.Spec.Template.DeepCopy(),
		},
	}
	twin.Spec.Template.Labels = labels
	return b.cluster.Create(ctx, twin)
}

func (b bareTwin) scale(ctx context.Context, replicas int32) error {
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: bareName, Namespace: b.namespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}
	_, err := b.cluster.Kube.AppsV1().Deployments(b.namespace).UpdateScale(ctx, bareName, scale, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("scale the bare Deployment to %d: %w", replicas, err)
	}
	return nil
}

func (b bareTwin) awaitNoPods(ctx context.Context, labels client.MatchingLabels) error {
	return framework.Await(ctx, 2*time.Minute, "all pods to be gone", func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := b.cluster.List(ctx, pods, client.InNamespace(b.namespace), labels)
		return err == nil && len(pods.Items) == 0, err
	})
}
