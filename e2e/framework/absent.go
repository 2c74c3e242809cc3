package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Without scales a Deployment to nothing while a function runs.
func (c *Cluster) Without(ctx context.Context, namespace, deployment string, run func() error) error {
	before, err := c.scaleTo(ctx, namespace, deployment, 0)
	if err != nil {
		return err
	}
	if err = c.AwaitReplicas(ctx, namespace, deployment, 0, time.Minute); err == nil {
		err = run()
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	if _, scaled := c.scaleTo(back, namespace, deployment, before); scaled != nil {
		return errors.Join(err, scaled)
	}
	return errors.Join(err, c.AwaitReplicas(back, namespace, deployment, before, 2*time.Minute))
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
