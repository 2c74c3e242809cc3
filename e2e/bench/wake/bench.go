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

const (
	function  = "woken"
	bareName  = "bare"
	eventType = "bench.wake.v1"

	nodeRuntime = "nodejs22"
	goRuntime   = "go126"
)

// sources are the handlers, by the runtimes that they are for.
var sources = map[string]string{nodeRuntime: framework.ReportingHandler(""), goRuntime: framework.ReportingHandlerInGo}

type bench struct {
	cluster   *framework.Cluster
	namespace string
	runtime   string
	source    string
}

// prepare makes the Function and a Deployment with the very same pod, both at zero.
func (b *bench) prepare(ctx context.Context) error {
	if err := b.cluster.StartLedger(ctx, b.namespace); err != nil {
		return err
	}
	woken := framework.Function{
		Name: function, Runtime: b.runtime, Source: b.source, Asleep: true, Max: 1,
		Annotations: map[string]string{"rouse.run/polling-interval": "1", "rouse.run/cooldown-period": "1"},
	}
	subscription := framework.Subscription{Name: function, Namespace: b.namespace, Type: eventType, Sink: function}
	if err := b.cluster.ApplyYAML(ctx, b.namespace, woken.YAML()+"---\n"+subscription.YAML()); err != nil {
		return err
	}
	if err := b.cluster.AwaitSubscribed(ctx, b.namespace, function); err != nil {
		return err
	}
	original := &appsv1.Deployment{}
	err := framework.Await(ctx, time.Minute, "the Function's Deployment", func(ctx context.Context) (bool, error) {
		err := b.cluster.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: function}, original)
		return err == nil, err
	})
	if err != nil {
		return err
	}
	return b.cluster.Create(ctx, bareTwin(original))
}

// bareTwin is the same pod under labels that no other object selects.
func bareTwin(original *appsv1.Deployment) *appsv1.Deployment {
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
	return twin
}

// wake publishes one event at zero and returns the time until the handler saw it.
func (b *bench) wake(ctx context.Context, key string) (time.Duration, error) {
	labels := client.MatchingLabels{framework.FunctionLabel: function}
	if err := b.awaitNoPods(ctx, labels); err != nil {
		return 0, err
	}
	published := time.Now()
	err := b.cluster.Publish(ctx, framework.Event{ID: key, Type: eventType, Data: map[string]string{"key": key}})
	if err != nil {
		return 0, err
	}
	entries, err := b.cluster.AwaitLedger(ctx, b.namespace, []string{key}, time.Minute)
	if err != nil {
		return 0, err
	}
	at := time.UnixMicro(int64(entries[key].At * 1000))
	return at.Sub(published), b.awaitNoPods(ctx, labels)
}

// bare scales the twin to 1, as kubectl scale does, and returns the time until its pod is Ready.
func (b *bench) bare(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan time.Time, 1)
	if err := b.cluster.RecordReady(ctx, b.namespace, client.MatchingLabels{"app": bareName}, ready); err != nil {
		return 0, err
	}
	started := time.Now()
	if err := b.scale(ctx, 1); err != nil {
		return 0, err
	}
	var took time.Duration
	select {
	case at := <-ready:
		took = at.Sub(started)
	case <-time.After(time.Minute):
		return 0, fmt.Errorf("the bare pod of %s was not Ready within a minute", b.namespace)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := b.scale(ctx, 0); err != nil {
		return 0, err
	}
	return took, b.awaitNoPods(ctx, client.MatchingLabels{"app": bareName})
}

func (b *bench) scale(ctx context.Context, replicas int32) error {
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

func (b *bench) awaitNoPods(ctx context.Context, labels client.MatchingLabels) error {
	return framework.Await(ctx, 2*time.Minute, "all pods to be gone", func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := b.cluster.List(ctx, pods, client.InNamespace(b.namespace), labels)
		return err == nil && len(pods.Items) == 0, err
	})
}
