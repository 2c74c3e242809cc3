package target

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/cli/exit"
)

const (
	bridgePods = "app.kubernetes.io/part-of=rouse,app.kubernetes.io/component=eventbridge"
	publishing = "http" // the ports of a bridge
	operating  = "admin"
)

// Publish implements Target.
func (c *cluster) Publish(ctx context.Context) (string, error) {
	bridges, err := c.bridges(ctx)
	if err != nil {
		return "", err
	}
	url, err := c.forward(ctx, bridges[0].Namespace, bridges[0].Name, portOf(&bridges[0], publishing))
	if err != nil {
		return "", err
	}
	return url + "/publish", nil
}

// Admins implements Target.
func (c *cluster) Admins(ctx context.Context) ([]Admin, error) {
	urls, err := c.adminURLs(ctx)
	if err != nil {
		return nil, err
	}
	token, err := c.login(ctx)
	if err != nil {
		return nil, err
	}
	admins := make([]Admin, len(urls))
	for i, url := range urls {
		admins[i] = Admin{URL: url, Token: token}
	}
	return admins, nil
}

// adminURLs are those that the user names, else ports of all bridges on loopback.
func (c *cluster) adminURLs(ctx context.Context) ([]string, error) {
	if len(c.options.AdminURLs) > 0 {
		return c.options.AdminURLs, nil
	}
	bridges, err := c.bridges(ctx)
	if err != nil {
		return nil, err
	}
	if portOf(&bridges[0], operating) == 0 {
		return nil, exit.Errorf(exit.Unreachable, "the admin API is switched off in %s: set eventbridge.admin.enabled of the chart to true", c.name)
	}
	urls := make([]string, len(bridges))
	for i := range bridges {
		if urls[i], err = c.forward(ctx, bridges[i].Namespace, bridges[i].Name, portOf(&bridges[i], operating)); err != nil {
			return nil, err
		}
	}
	return urls, nil
}

// bridges are the ready ones, at least one.
func (c *cluster) bridges(ctx context.Context) ([]corev1.Pod, error) {
	c.options.Note("looking for eventbridges in " + c.name)
	pods, err := c.pods(ctx, c.options.RouseNamespace, bridgePods)
	if err != nil {
		return nil, err
	}
	var ready []corev1.Pod
	for _, pod := range pods {
		if isReady(&pod) && portOf(&pod, publishing) != 0 {
			ready = append(ready, pod)
		}
	}
	switch {
	case len(pods) == 0:
		return nil, exit.Errorf(exit.Unreachable, "there is no eventbridge in namespace %s of %s: name the one that Rouse is installed in with --rouse-namespace",
			c.options.RouseNamespace, c.name)
	case len(ready) == 0:
		return nil, exit.Errorf(exit.Unreachable, "no eventbridge is ready in namespace %s of %s, of %d: look at them with kubectl describe pods -n %s -l %s",
			c.options.RouseNamespace, c.name, len(pods), c.options.RouseNamespace, bridgePods)
	}
	return ready, nil
}

// pods lists those with the labels.
func (c *cluster) pods(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	list, err := c.objects.Resource(podsResource()).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, c.explain(err, "list", "pods", namespace)
	}
	pods := make([]corev1.Pod, 0, len(list.Items))
	for _, item := range list.Items {
		pod, err := into[corev1.Pod](item.Object)
		if err != nil {
			return nil, err
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

func isReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// portOf is the container's port of that name, 0 without one.
func portOf(pod *corev1.Pod, name string) int32 {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == name {
				return port.ContainerPort
			}
		}
	}
	return 0
}
