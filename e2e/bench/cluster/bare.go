package main

import (
	"context"
	"fmt"
	"net"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	nodeRuntime = "nodejs22"

	bareName  = "bare"
	bareLabel = "app" // of all bare pods
	nameLabel = "name"
)

// bareTwin is a Deployment with the very same pod as a Function's, which nothing but scale scales.
type bareTwin struct {
	cluster   *framework.Cluster
	namespace string
	name      string
	cpu       *cpuRecord // nil where nobody asks for it
}

func (b bareTwin) labels() client.MatchingLabels {
	return client.MatchingLabels{bareLabel: bareName, nameLabel: b.name}
}

// create makes the twin at zero, under labels that no other object selects.
func (b bareTwin) create(ctx context.Context, original *appsv1.Deployment) error {
	labels := b.labels()
	twin := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: b.name, Namespace: original.Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: *original.Spec.Template.DeepCopy(),
		},
	}
	twin.Spec.Template.Labels = labels
	return b.cluster.Create(ctx, twin)
}

const (
	podPort     = "8080"
	acceptEvery = 5 * time.Millisecond
	acceptOnce  = 250 * time.Millisecond // as an activator dials
	readyEvery  = 10 * time.Millisecond
)

// run scales the twin to 1, as kubectl scale does, calls accepted as soon as its port takes a connection, waits until Kubernetes finds
// it Ready, and scales it to 0 again. The stages end when the port took the connection.
func (b bareTwin) run(ctx context.Context, accepted func(began time.Time, address string) error) (stages, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	labels := b.labels()
	seen, addressed, err := watchStart(ctx, b.cluster, b.namespace, labels)
	if err != nil {
		return stages{}, err
	}
	addCPU := b.cpu.watch(ctx, addressed)
	began := time.Now()
	if err := b.scale(ctx, 1); err != nil {
		return stages{}, err
	}
	wanted := time.Since(began)
	select {
	case <-addressed:
	case <-ctx.Done():
		return stages{}, fmt.Errorf("the bare pod of %s has no address: %w", b.namespace, ctx.Err())
	}
	addCPU()
	address := net.JoinHostPort(seen().address, podPort)
	if err := awaitAccept(ctx, address); err != nil {
		return stages{}, err
	}
	took := time.Since(began)
	if accepted != nil {
		if err := accepted(began, address); err != nil {
			return stages{}, err
		}
	}
	for seen().ready.IsZero() {
		select {
		case <-ctx.Done():
			return stages{}, fmt.Errorf("the bare pod of %s is not Ready: %w", b.namespace, ctx.Err())
		case <-time.After(readyEvery):
		}
	}
	s := seen().since(began)
	s.wanted, s.answered = wanted, took
	if err := b.scale(ctx, 0); err != nil {
		return stages{}, err
	}
	return s, b.awaitNoPods(ctx, labels)
}

// awaitAccept waits until an address takes connections.
func awaitAccept(ctx context.Context, address string) error {
	for {
		conn, err := (&net.Dialer{Timeout: acceptOnce}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the bare pod does not accept: %w", err)
		}
		time.Sleep(acceptEvery)
	}
}

func (b bareTwin) scale(ctx context.Context, replicas int32) error {
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: b.name, Namespace: b.namespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}
	_, err := b.cluster.Kube.AppsV1().Deployments(b.namespace).UpdateScale(ctx, b.name, scale, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("scale %s to %d: %w", b.name, replicas, err)
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
