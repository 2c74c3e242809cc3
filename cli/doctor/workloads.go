package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Function is a Function of the user's namespace.
type Function struct {
	Namespace, Name string
	// Problem is the message of the condition that is false, with the reason; empty for none.
	Reason, Problem string
	// NoRegistry is true for a Function whose pods install its packages themselves.
	NoRegistry bool
}

// Work is what waits at a Subscription, seen twice.
type Work struct {
	Namespace, Name string
	Consumer        bool
	Paused          bool
	Waiting         uint64 // events that no delivery was begun of
	Earlier         uint64 // the same, a moment before
	Running         uint64 // deliveries that run
	DeadLetters     uint64
}

const (
	checkPods        = "pods"
	checkImages      = "images"
	checkFunctions   = "functions"
	checkRegistry    = "registry"
	checkConsumers   = "consumers"
	checkDeadLetters = "deadletters"
)

// restartsAreMany is how often a container may have been restarted.
const restartsAreMany = 5

// examinePods finds containers that do not start, or that end again and again.
func (c Cluster) examinePods(e *examination) {
	for _, pods := range []Known[[]corev1.Pod]{c.RousePods, c.FunctionPods} {
		if pods.Err != nil {
			e.unknown(checkPods, pods.Err)
			continue
		}
		for i := range pods.Value {
			examinePod(e, &pods.Value[i])
		}
	}
	broken := slices.ContainsFunc(e.findings, func(f Finding) bool { return f.Check == checkPods || f.Check == checkImages })
	if !broken {
		e.ok(checkPods, "the containers of %s start", counted(len(c.RousePods.Value)+len(c.FunctionPods.Value), "pod", "pods"))
	}
}

func examinePod(e *examination, pod *corev1.Pod) {
	name := pod.Namespace + "/" + pod.Name
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		logs := fmt.Sprintf("kubectl logs -n %s %s -c %s --previous", pod.Namespace, pod.Name, status.Name)
		waiting := status.State.Waiting
		switch {
		case waiting != nil && slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}, waiting.Reason):
			e.fail(checkImages, "see that the registry answers the nodes, and that the pod has its pull secret",
				"pod %s cannot pull %s: %s", name, status.Image, oneLine(waiting.Message))
		case waiting != nil && waiting.Reason == "CrashLoopBackOff":
			e.fail(checkPods, logs, "container %s of pod %s ends again and again", status.Name, name)
		case waiting != nil && waiting.Reason == "CreateContainerConfigError":
			e.fail(checkPods, "make what is missing, or correct the Function", "pod %s cannot start: %s", name, oneLine(waiting.Message))
		case status.RestartCount >= restartsAreMany:
			e.warn(checkPods, logs, "container %s of pod %s was restarted %d times", status.Name, name, status.RestartCount)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			e.fail(checkPods, "make room on the nodes, or ask for less", "no node takes pod %s: %s", name, oneLine(condition.Message))
		}
	}
}

func (c Cluster) examineFunctions(e *examination) {
	if c.Functions.Err != nil {
		e.unknown(checkFunctions, c.Functions.Err)
		return
	}
	var broken, installing []string
	for _, fn := range c.Functions.Value {
		if fn.Problem != "" {
			broken = append(broken, fmt.Sprintf("%s/%s: %s: %s", fn.Namespace, fn.Name, fn.Reason, oneLine(fn.Problem)))
		}
		if fn.NoRegistry {
			installing = append(installing, fn.Name)
		}
	}
	if len(installing) > 0 {
		e.warn(checkRegistry, "name a registry, as docs/operations.md says",
			"there is no registry, so the pods of %s install their packages at each start", listed(installing))
	}
	for _, text := range bounded(broken) {
		e.fail(checkFunctions, "docs/troubleshooting.md says what each reason means", "%s", text)
	}
	if len(broken) == 0 {
		e.ok(checkFunctions, "%s without a problem", counted(len(c.Functions.Value), "Function", "Functions"))
	}
}

// examineWork finds consumers that do not move, and dead letters.
func (c Cluster) examineWork(e *examination) {
	if c.Work.Err != nil {
		e.unknown(checkConsumers, c.Work.Err)
		return
	}
	stuck, dead := 0, []string{}
	for _, work := range c.Work.Value {
		name := work.Namespace + "/" + work.Name
		if work.DeadLetters > 0 {
			dead = append(dead, fmt.Sprintf("%d of %s", work.DeadLetters, name))
		}
		switch {
		case !work.Consumer || work.Paused || work.Waiting == 0:
		case work.Running == 0 && work.Waiting >= work.Earlier && work.Earlier > 0:
			stuck++
			e.warn(checkConsumers, "rouse functions of its Function says why it does not wake",
				"%d events wait for Subscription %s, and none is delivered", work.Waiting, name)
		}
	}
	if stuck == 0 {
		e.ok(checkConsumers, "no consumer of %s stands still", counted(len(c.Work.Value), "Subscription", "Subscriptions"))
	}
	if len(dead) > 0 {
		e.warn(checkDeadLetters, "rouse dlq list, then rouse dlq redrive", "dead letters: %s", listed(dead))
	}
}

// oneLine returns a message without its line breaks, cut off where it is long.
func oneLine(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return text
}
