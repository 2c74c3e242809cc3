package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/controller/buildqueue"
)

const (
	labelSweep   = "rouse.run/registry-sweep"
	sweepTimeout = 15 * time.Minute
	sweepPoll    = time.Second
	dataVolume   = "data" // of the registry, with its images
	// registryContainer is the registry itself in its pod.
	registryContainer = "registry"
	sweepKept         = 3600 // seconds that an ended Job stays for its log
)

// sweepJob runs the garbage collector of the registry beside it: the same image, volume and configuration, on the
// same node, as a volume may be attached to one only.
func sweepJob(registry *appsv1.Deployment) (*batchv1.Job, error) {
	pod := *registry.Spec.Template.Spec.DeepCopy()
	at := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == registryContainer })
	if at < 0 {
		return nil, fmt.Errorf("the Deployment %s has no container %s", registry.Name, registryContainer)
	}
	pod.Containers = pod.Containers[at : at+1] // without the proxy
	container := &pod.Containers[0]
	if len(container.Args) == 0 {
		return nil, fmt.Errorf("the Deployment %s does not say which configuration the registry has", registry.Name)
	}
	configuration := container.Args[len(container.Args)-1]
	container.Args = []string{"garbage-collect", "--delete-untagged", configuration}
	container.StartupProbe, container.LivenessProbe, container.ReadinessProbe, container.Ports = nil, nil, nil, nil
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: registry.Spec.Selector, TopologyKey: corev1.LabelHostname,
		}},
	}}
	labels := map[string]string{labelSweep: registry.Name}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: registry.Namespace, GenerateName: registry.Name + "-sweep-", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(registry, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:            ptr.To[int32](0),
			ActiveDeadlineSeconds:   ptr.To(int64(sweepTimeout / time.Second)),
			TTLSecondsAfterFinished: ptr.To[int32](sweepKept),
			Template:                corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}, nil
}

// jobs sweeps by Jobs.
type jobs struct {
	live      client.Client
	namespace string
	name      string
}

// Sweep frees the space of deleted images and waits until that is done. A Job that still runs since before a restart
// is the one that is waited for.
func (j *jobs) Sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout+time.Minute)
	defer cancel()
	job, err := j.running(ctx)
	if err != nil {
		return err
	}
	if job == nil {
		if job, err = j.start(ctx); err != nil || job == nil {
			return err
		}
	}
	key := client.ObjectKeyFromObject(job)
	err = wait.PollUntilContextCancel(ctx, sweepPoll, false, func(ctx context.Context) (bool, error) {
		if err := j.live.Get(ctx, key, job); err != nil {
			return false, err
		}
		return buildqueue.Ended(job), nil
	})
	if err == nil && buildqueue.Failed(job) {
		err = errors.New("the Job has failed, its log says why")
	}
	if err != nil {
		return fmt.Errorf("sweep the registry with Job %s: %w", key, err)
	}
	return nil
}

// Running reports whether a sweep is under way.
func (j *jobs) Running(ctx context.Context) (bool, error) {
	job, err := j.running(ctx)
	return job != nil, err
}

func (j *jobs) running(ctx context.Context) (*batchv1.Job, error) {
	found := &batchv1.JobList{}
	if err := j.live.List(ctx, found, client.InNamespace(j.namespace), client.MatchingLabels{labelSweep: j.name}); err != nil {
		return nil, fmt.Errorf("look for a sweep of the registry that runs: %w", err)
	}
	for i := range found.Items {
		if !buildqueue.Ended(&found.Items[i]) {
			return &found.Items[i], nil
		}
	}
	return nil, nil //nolint:nilnil // none runs
}

// start does nothing where the registry keeps nothing over a restart: another pod cannot see what it has.
func (j *jobs) start(ctx context.Context) (*batchv1.Job, error) {
	registry := &appsv1.Deployment{}
	if err := j.live.Get(ctx, client.ObjectKey{Namespace: j.namespace, Name: j.name}, registry); err != nil {
		return nil, fmt.Errorf("read the registry's Deployment: %w", err)
	}
	for _, volume := range registry.Spec.Template.Spec.Volumes {
		if volume.Name == dataVolume && volume.EmptyDir != nil {
			return nil, nil //nolint:nilnil // nothing to sweep
		}
	}
	job, err := sweepJob(registry)
	if err != nil {
		return nil, err
	}
	if err := j.live.Create(ctx, job); err != nil {
		return nil, fmt.Errorf("start a sweep of the registry: %w", err)
	}
	return job, nil
}
