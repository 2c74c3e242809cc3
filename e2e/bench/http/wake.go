package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	sleeping = "sleeping"
	bareName = "bare"
	warm     = "warm"

	hello = "module.exports.main = function () { return 'hello' }"

	podPort     = "8080"
	acceptEvery = 5 * time.Millisecond
	acceptOnce  = 250 * time.Millisecond // as an activator dials
)

type bench struct {
	cluster   *framework.Cluster
	namespace string
	urls      map[string]string
	errors    int
}

// prepare makes all Functions, and a Deployment with the very pod of the one that sleeps.
func (b *bench) prepare(ctx context.Context) error {
	fast := map[string]string{"rouse.run/polling-interval": "1", "rouse.run/cooldown-period": "1"}
	functions := []framework.Function{
		{Name: sleeping, Runtime: "nodejs22", Source: hello, Asleep: true, Annotations: fast},
		{Name: warm, Runtime: "nodejs22", Source: hello, Asleep: true, Max: 1},
	}
	b.urls = map[string]string{}
	for _, function := range functions {
		if err := b.cluster.ApplyYAML(ctx, b.namespace, function.YAML()); err != nil {
			return err
		}
	}
	for _, function := range functions {
		if err := b.cluster.AwaitCondition(ctx, b.namespace, framework.FunctionGVK, function.Name, "Running", "True", time.Minute); err != nil {
			return err
		}
		service := &corev1.Service{}
		if err := b.cluster.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: function.Name}, service); err != nil {
			return err
		}
		b.urls[function.Name] = "http://" + service.Spec.ClusterIP
	}
	original := &appsv1.Deployment{}
	if err := b.cluster.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: sleeping}, original); err != nil {
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

// wake asks the Function at zero and returns when it began, and the time until the first byte of its answer.
func (b *bench) wake(ctx context.Context) (began time.Time, took time.Duration, err error) {
	labels := client.MatchingLabels{framework.FunctionLabel: sleeping}
	if err := b.awaitNoPods(ctx, labels); err != nil {
		return began, 0, err
	}
	began = time.Now()
	first, err := b.ask(ctx, b.urls[sleeping])
	return began, first.Sub(began), err
}

// ask makes a request over a new connection, and returns when the first byte of its answer came.
func (b *bench) ask(ctx context.Context, url string) (time.Time, error) {
	var first time.Time
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { first = time.Now() }})
	request, err := http.NewRequestWithContext(traced, http.MethodGet, url, http.NoBody)
	if err != nil {
		return first, fmt.Errorf("make a request: %w", err)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}).Do(request)
	if err != nil {
		return first, fmt.Errorf("ask %s: %w", url, err)
	}
	if answer.StatusCode != http.StatusOK {
		b.errors++
	}
	return first, answer.Body.Close()
}

// bare scales the twin to 1, as kubectl scale does, and returns the time until its port accepts a connection, and until the first
// byte of its first answer.
func (b *bench) bare(ctx context.Context) (accepted, answered time.Duration, err error) {
	watching, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	addresses := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- b.cluster.RecordAddresses(watching, b.namespace, client.MatchingLabels{"app": bareName}, func(pod *corev1.Pod, _ time.Time) {
			addresses <- net.JoinHostPort(pod.Status.PodIP, podPort)
		})
	}()
	began := time.Now()
	if err := b.scale(ctx, 1); err != nil {
		return 0, 0, err
	}
	var address string
	for address == "" {
		select {
		case address = <-addresses:
		case err := <-ended:
			if err != nil {
				return 0, 0, err
			}
			ended = nil // it goes on by itself
		case <-watching.Done():
			return 0, 0, errors.New("the bare pod had no address within a minute")
		}
	}
	for {
		conn, err := (&net.Dialer{Timeout: acceptOnce}).DialContext(watching, "tcp", address)
		if err == nil {
			_ = conn.Close()
			break
		}
		if watching.Err() != nil {
			return 0, 0, fmt.Errorf("the bare pod did not accept within a minute: %w", err)
		}
		time.Sleep(acceptEvery)
	}
	accepted = time.Since(began)
	first, err := b.ask(ctx, "http://"+address)
	if err != nil {
		return 0, 0, err
	}
	answered = first.Sub(began)
	if err := b.scale(ctx, 0); err != nil {
		return 0, 0, err
	}
	return accepted, answered, b.awaitNoPods(ctx, client.MatchingLabels{"app": bareName})
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
