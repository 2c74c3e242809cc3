package target

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
)

// podPollInterval is how often a pod that starts is checked.
const podPollInterval = 250 * time.Millisecond

// functionContainer runs the handler.
const functionContainer = "function"

// Function implements Target. An activator answers whether the Function sleeps or not. Without one it is called at a pod, and gets
// a replica when it sleeps.
func (c *cluster) Function(ctx context.Context, namespace, name string) (string, error) {
	uid, err := c.mustExist(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	url, missing := c.activator(ctx, types.NamespacedName{Namespace: namespace, Name: name}, uid)
	if missing == nil {
		return url, nil
	}
	url, err = c.awakePod(ctx, namespace, name)
	if exit.CodeOf(err) == exit.Unreachable {
		return "", exit.Errorf(exit.Unreachable, "%w; nor can a gateway be asked: %w", err, missing)
	}
	return url, err
}

// awakePod is the URL of a pod that is ready. A Function that sleeps gets a replica, which KEDA removes when there is no work.
func (c *cluster) awakePod(ctx context.Context, namespace, name string) (string, error) {
	for {
		pods, err := c.pods(ctx, namespace, functionPods(name))
		if err != nil {
			return "", err
		}
		pod, waiting, err := pick(pods)
		switch {
		case err != nil:
			return "", err
		case pod != nil:
			return c.forward(ctx, namespace, pod.Name, functionPort(pod))
		case waiting != "":
			c.options.Note(fmt.Sprintf("waiting for Function %s: %s", name, waiting))
		default:
			if err := c.wake(ctx, namespace, name); err != nil {
				return "", err
			}
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(podPollInterval):
		}
	}
}

func functionPods(name string) string {
	return v1alpha2.LabelFunctionName + "=" + name + "," + v1alpha2.LabelResource + "=" + v1alpha2.ResourceDeployment
}

// pick finds a pod that is ready, else what is waited for. Without any there is nothing to wait for.
func pick(pods []corev1.Pod) (ready *corev1.Pod, waiting string, err error) {
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil {
			continue
		}
		if isReady(pod) {
			return pod, "", nil
		}
		reason, message, stuck := stateOf(pod)
		if stuck {
			err = exit.Errorf(exit.Failed, "pod %s does not start: %s: %s; rouse logs shows what it printed", pod.Name, reason, message)
		}
		waiting = "pod " + pod.Name + " is " + reason
	}
	return nil, waiting, err
}

// stateOf is why a pod is not ready; stuck is true if that does not pass by itself.
func stateOf(pod *corev1.Pod) (reason, message string, stuck bool) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if waiting := statuses[i].State.Waiting; waiting != nil && waiting.Reason != "" {
				switch waiting.Reason {
				case "CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError":
					return waiting.Reason, waiting.Message, true
				}
				return waiting.Reason, waiting.Message, false
			}
		}
	}
	if pod.Status.Phase == corev1.PodRunning {
		return "starting", "", false
	}
	return string(pod.Status.Phase), "", false
}

// functionPort is where the handler listens.
func functionPort(pod *corev1.Pod) int32 {
	const usual = 8080
	for _, container := range pod.Spec.Containers {
		if container.Name == functionContainer && len(container.Ports) > 0 {
			return container.Ports[0].ContainerPort
		}
	}
	return usual
}

// wake raises the Deployment from 0 to 1. One that has replicas already will have a pod soon.
func (c *cluster) wake(ctx context.Context, namespace, name string) error {
	deployments := c.objects.Resource(deploymentsResource()).Namespace(namespace)
	scale, err := deployments.Get(ctx, name, metav1.GetOptions{}, "scale")
	if apierrors.IsNotFound(err) {
		return exit.Errorf(exit.Failed, "Function %s has no Deployment yet: kubectl describe function %s -n %s says why", name, name, namespace)
	}
	if err != nil {
		return c.explain(err, "get", "deployments/scale", namespace)
	}
	if wanted, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas"); wanted > 0 {
		c.options.Note(fmt.Sprintf("waiting for Function %s: its pod is being made", name))
		return nil
	}
	c.options.Note(fmt.Sprintf("Function %s sleeps: waking it", name))
	_, err = deployments.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{}, "scale")
	return c.explain(err, "patch", "deployments/scale", namespace)
}
