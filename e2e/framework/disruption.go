package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// KillPod kills the first container of a pod with SIGKILL, like a crash without a drain. On the local cluster it kills
// the container's process; elsewhere it deletes the pod without a grace period.
func (c *Cluster) KillPod(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Status.ContainerStatuses) > 0 {
		err := killContainer(pod.Status.ContainerStatuses[0].ContainerID)
		if !errors.Is(err, errNotHere) {
			return err
		}
	}
	if err := c.Delete(ctx, pod, &client.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return nil
}

var errNotHere = errors.New("the container does not run on this machine")

// killContainer kills the main process of a container, given the kubelet's id.
func killContainer(id string) error { return signalContainer(id, syscall.SIGKILL) }

// signalContainer sends a signal to the main process of a container, given the kubelet's id.
func signalContainer(id string, signal syscall.Signal) error {
	_, id, _ = strings.Cut(id, "://")
	pid := processOf(id)
	if pid <= 1 {
		return errNotHere
	}
	if err := syscall.Kill(pid, signal); err != nil {
		return fmt.Errorf("send %s to process %d: %w", signal, pid, err)
	}
	return nil
}

// WithHanging stops the processes of a Deployment's pods with SIGSTOP while a function runs: they are there, keep their
// connections, and do nothing.
func (c *Cluster) WithHanging(ctx context.Context, namespace, name string, run func() error) (err error) {
	pods, err := c.podsOfDeployment(ctx, namespace, name)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		for _, status := range pod.Status.ContainerStatuses {
			if err := signalContainer(status.ContainerID, syscall.SIGSTOP); err != nil {
				return fmt.Errorf("stop pod %s: %w", pod.Name, err)
			}
			defer func() { err = errors.Join(err, signalContainer(status.ContainerID, syscall.SIGCONT)) }()
		}
	}
	return run()
}

// processOf returns the main process of a container, found by its cgroup, or 0 when the container runs on another
// machine.
func processOf(containerID string) int {
	if containerID == "" {
		return 0
	}
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0
	}
	for _, path := range groups {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), containerID) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			return pid
		}
	}
	return 0
}

// PodsOf lists the running pods of one of Rouse's components: controller, eventbridge, scaler or nats.
func (c *Cluster) PodsOf(ctx context.Context, component string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.List(ctx, pods, client.InNamespace(System), componentLabel(component))
	if err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", component, err)
	}
	running := pods.Items[:0]
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp.IsZero() && Ready(&pod) {
			running = append(running, pod)
		}
	}
	if len(running) == 0 {
		return nil, fmt.Errorf("no running pod of %s in %s", component, System)
	}
	return running, nil
}

func componentLabel(component string) client.MatchingLabels {
	return client.MatchingLabels{"app.kubernetes.io/component": component}
}

// Ready reports whether a pod is ready.
func Ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Detach replaces a Function by a Deployment and a Service of the same name and pods, which no release of Rouse
// changes, so that in-memory counts outlast an upgrade.
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
	err = Await(ctx, time.Minute, "the objects of "+name+" to be gone", func(ctx context.Context) (bool, error) {
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

// Balance contains JetStream's counts for one Subscription.
type Balance struct {
	Pending     uint64 // stored but not yet acked, rejected or dead-lettered
	DeadLetters uint64 // stored as dead letters
}

// Balance returns a Subscription's backlog and dead letters from JetStream.
func (c *Cluster) Balance(ctx context.Context, namespace, subscription string) (Balance, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	server, err := c.natsServer(ctx)
	if err != nil {
		return Balance{}, err
	}
	port, err := c.Forward(ctx, server, 4222)
	if err != nil {
		return Balance{}, err
	}
	options := broker.Options{Name: "rouse-e2e", URL: fmt.Sprintf("nats://127.0.0.1:%d", port)}
	conn, err := broker.Connect(ctx, options, logr.Discard())
	if err != nil {
		return Balance{}, fmt.Errorf("connect to NATS: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	backlog, err := conn.Backlog(ctx, "sap", routing.ConsumerName(namespace, subscription))
	if err != nil {
		return Balance{}, fmt.Errorf("read the backlog of %s: %w", subscription, err)
	}
	dead, err := conn.DeadLetters(ctx, types.NamespacedName{Namespace: namespace, Name: subscription})
	if err != nil {
		return Balance{}, fmt.Errorf("count dead letters of %s: %w", subscription, err)
	}
	return Balance{Pending: backlog.Total(), DeadLetters: dead}, nil
}

// natsServer returns a ready server: the chart's, or one of the separate cluster's.
func (c *Cluster) natsServer(ctx context.Context) (*corev1.Pod, error) {
	beside := &corev1.PodList{}
	if err := c.List(ctx, beside, client.InNamespace("nats-system"), client.MatchingLabels{"app": "nats"}); err != nil {
		return nil, fmt.Errorf("list NATS servers: %w", err)
	}
	for _, pod := range beside.Items {
		if Ready(&pod) {
			return &pod, nil
		}
	}
	pods, err := c.PodsOf(ctx, "nats")
	if err != nil {
		return nil, err
	}
	return &pods[0], nil
}

// CrashNATS kills the servers until the kubelet backs off, so that NATS is unavailable for ten seconds or more while
// its storage remains.
func (c *Cluster) CrashNATS(ctx context.Context) error {
	return Await(ctx, time.Minute, "NATS to crash and stay away", func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.InNamespace(System), componentLabel("nats")); err != nil {
			return false, err
		}
		away := 0
		for _, pod := range pods.Items {
			for _, status := range pod.Status.ContainerStatuses {
				if waiting := status.State.Waiting; waiting != nil && waiting.Reason == "CrashLoopBackOff" {
					away++
				} else if err := killContainer(status.ContainerID); err != nil {
					return false, err
				}
			}
		}
		return away > 0 && away == len(pods.Items), nil
	})
}
