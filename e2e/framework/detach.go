package framework

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Detach puts a Deployment and a Service of the same name and pods in a Function's place, which no release of Rouse changes: what
// counts in memory outlasts an upgrade.
func (c *Cluster) Detach(ctx context.Context, namespace, name string) error {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	for _, object := range []client.Object{deployment, service} {
		if err := c.Get(ctx, key, object); err != nil {
			return fmt.Errorf("detach the Function %s: %w", name, err)
		}
	}
	function, err := c.Function(ctx, namespace, name)
	if err != nil {
		return err
	}
	if err := c.Delete(ctx, function); err != nil {
		return fmt.Errorf("delete the Function %s: %w", name, err)
	}
	err = Await(ctx, time.Minute, "what "+name+" had to be gone", func(ctx context.Context) (bool, error) {
		for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
			if err := c.Get(ctx, key, object); !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	labels := map[string]string{"app": name}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: deployment.Spec.Template.Spec}
	for _, object := range []client.Object{
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels, Ports: service.Spec.Ports}},
	} {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, name, err)
		}
	}
	if err := c.AwaitReplicas(ctx, namespace, name, 1, time.Minute); err != nil {
		return err
	}
	return Await(ctx, time.Minute, name+" to answer", func(ctx context.Context) (bool, error) {
		_, err := c.Answer(ctx, namespace, name)
		return err == nil, err
	})
}
