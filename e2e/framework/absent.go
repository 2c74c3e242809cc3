package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Without scales a Deployment to nothing while a function runs, and back however that ends.
func (c *Cluster) Without(ctx context.Context, namespace, name string, run func() error) (err error) {
	before, err := c.scaleTo(ctx, namespace, name, 0)
	if err != nil {
		return err
	}
	defer func() {
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		if _, scaled := c.scaleTo(back, namespace, name, before); scaled != nil {
			err = errors.Join(err, scaled)
			return
		}
		err = errors.Join(err, c.AwaitReplicas(back, namespace, name, before, 2*time.Minute))
	}()
	if err := c.awaitNoPods(ctx, namespace, name); err != nil {
		return err
	}
	return run()
}

// awaitNoPods waits until those of a Deployment have ended: while they drain they serve.
func (c *Cluster) awaitNoPods(ctx context.Context, namespace, name string) error {
	deployment := &appsv1.Deployment{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
		return fmt.Errorf("find Deployment %s/%s: %w", namespace, name, err)
	}
	selector := client.MatchingLabels(deployment.Spec.Selector.MatchLabels)
	return Await(ctx, 2*time.Minute, "the pods of "+name+" to be gone", func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := c.List(ctx, pods, client.InNamespace(namespace), selector)
		return err == nil && len(pods.Items) == 0, err
	})
}

// scaleTo returns how many replicas there were.
func (c *Cluster) scaleTo(ctx context.Context, namespace, name string, replicas int32) (int32, error) {
	deployment := &appsv1.Deployment{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
		return 0, fmt.Errorf("find Deployment %s/%s: %w", namespace, name, err)
	}
	before := ptr.Deref(deployment.Spec.Replicas, 1)
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := c.Patch(ctx, deployment, patch); err != nil {
		return 0, fmt.Errorf("scale Deployment %s/%s: %w", namespace, name, err)
	}
	return before, nil
}
