package function

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	controllerbuild "github.com/rouse-run/rouse/controller/build"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/registry"
	"github.com/rouse-run/rouse/internal/build"
	images "github.com/rouse-run/rouse/internal/registry"
)

// registries tells where images are kept.
type registries interface {
	// For is the registry of a namespace, nil when there is none. The error may be
	// a *registry.InvalidError.
	For(ctx context.Context, namespace string) (*registry.Registry, error)
}

// slots lets builds begin.
type slots interface {
	Enter(ctx context.Context, fn client.ObjectKey) (controllerbuild.Place, error)
	Leave(fn client.ObjectKey)
}

// lookTimeout bounds the question whether a registry has an image.
const lookTimeout = 5 * time.Second

// buildImage finds the image that the plan describes, or has it built. As long
// as there is none, the scope's code has no image.
func (r *Reconciler) buildImage(ctx context.Context, s *scope) error {
	key := client.ObjectKeyFromObject(s.fn)
	if s.plan == nil || awaitsCommit(s) {
		r.slots.Leave(key)
		if s.plan != nil {
			return nil
		}
		s.planned = true
		return r.clearBuilds(ctx, s, nil)
	}
	found, err := r.registries.For(ctx, s.fn.Namespace)
	if invalid, ok := errors.AsType[*registry.InvalidError](err); ok {
		r.slots.Leave(key)
		s.planned, s.build = true, invalidRegistryVerdict(invalid.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the registry of %q: %w", key, err)
	}
	if found == nil {
		r.slots.Leave(key)
		s.planned = true
		return r.prepareInPods(ctx, s)
	}
	s.registry, s.planned = found, true
	if foreign, err := r.applyRegistrySecret(ctx, s); foreign != nil || err != nil {
		s.build = verdictOf(foreign)
		return err
	}
	begun, err := r.findOrBuild(ctx, s)
	if !begun {
		r.slots.Leave(key)
	}
	return err
}

// findOrBuild tells whether the Function holds a slot or waits for one.
func (r *Reconciler) findOrBuild(ctx context.Context, s *scope) (bool, error) {
	repository := registry.Repository(client.ObjectKeyFromObject(s.fn))
	tag := imageTag(s.fn, *s.plan)
	s.plan.Target, s.plan.Insecure = s.registry.Target(repository, tag), s.registry.Insecure

	known := s.fn.Status.Build
	if known != nil && known.Tag == tag && strings.HasPrefix(known.Image, s.registry.Image(repository, "")) && !pullFails(s) {
		s.image = known
		return false, r.useImage(ctx, s, "")
	}
	wanted, err := r.attempt(ctx, s)
	if err != nil {
		return false, err
	}
	jobs, err := r.jobsOf(ctx, s.fn)
	if err != nil {
		return false, err
	}
	past := historyOf(jobs, wanted.target)
	if err := r.deleteJobs(ctx, past.superseded...); err != nil {
		return false, err
	}
	if past.present != nil {
		over, begun, err := r.followJob(ctx, s, past, &wanted)
		if over || err != nil {
			return begun, err
		}
	}
	digest, exists, err := r.look(ctx, s, repository, tag)
	switch {
	case err != nil:
		s.build = lookVerdict(s.registry, err)
		return false, nil
	case exists:
		s.image = &v1alpha2.BuildStatus{Tag: tag, Image: s.registry.Image(repository, digest)}
		return false, r.useImage(ctx, s, "")
	}
	return r.begin(ctx, s, wanted, past)
}

// followJob reads the newest Job for the wanted image. It is over when there is
// nothing more to decide; otherwise wanted is the next attempt, which is due.
func (r *Reconciler) followJob(ctx context.Context, s *scope, past history, wanted *attempt) (over, begun bool, err error) {
	job := past.present
	if !controllerbuild.Ended(job) {
		return true, true, r.watchJob(ctx, s, job)
	}
	pods, err := r.podsOf(ctx, s, job)
	if err != nil {
		return false, false, err
	}
	result := resultOf(job, pods)
	if result.Digest != "" {
		repository := registry.Repository(client.ObjectKeyFromObject(s.fn))
		s.image = &v1alpha2.BuildStatus{Tag: imageTag(s.fn, *s.plan), Image: s.registry.Image(repository, result.Digest)}
		return true, false, r.useImage(ctx, s, fmt.Sprintf("Job %s finished", job.Name))
	}
	if controllerbuild.Succeeded(job) {
		return false, false, nil // the registry knows more than a pod that is gone
	}
	next, due := wanted.after(job, result)
	if s.now.Before(due) {
		s.build = failedVerdict(job, result, due, s.now)
		return true, false, r.clearBuilds(ctx, s, &past)
	}
	*wanted = next
	return false, false, nil
}

// begin builds when it is this Function's turn.
func (r *Reconciler) begin(ctx context.Context, s *scope, wanted attempt, past history) (bool, error) {
	place, err := r.slots.Enter(ctx, client.ObjectKeyFromObject(s.fn))
	if err != nil {
		return false, err
	}
	if !place.Granted {
		s.build = queuedVerdict(place)
		return true, nil
	}
	name := resources.JobName(s.fn, wanted.id())
	if err := r.createJob(ctx, s, name, wanted); err != nil {
		failed := failureOf(explain(err, v1alpha2.ConditionBuildReady, v1alpha2.ReasonJobFailed,
			fmt.Sprintf("Job %s create failed: %v", name, err)))
		if failed == nil {
			return false, err
		}
		s.build = verdictOf(failed)
		s.build.lookAgain = firstRetry
		return false, nil
	}
	s.build = createdVerdict(name)
	return true, r.clearBuilds(ctx, s, &past)
}

// useImage runs what was built, and clears away what it was built with.
func (r *Reconciler) useImage(ctx context.Context, s *scope, message string) error {
	s.code.Image = s.image.Image
	s.build = builtVerdict(s, message)
	return r.clearBuilds(ctx, s, nil)
}

func (r *Reconciler) look(ctx context.Context, s *scope, repository, tag string) (string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return s.registry.Digest(ctx, repository, tag)
}

// lookVerdict tells what the user has to repair from what passes.
func lookVerdict(at *registry.Registry, err error) verdict {
	switch {
	case errors.Is(err, images.ErrForbidden):
		return registryProblem(fmt.Sprintf("%v. Correct username and password in Secret %s", err, at.Secret))
	case errors.Is(err, images.ErrUntrusted):
		return registryProblem(fmt.Sprintf("%v. Add the registry's authority to the caBundle of the installation, or correct the address "+
			"in Secret %s", err, at.Secret))
	default:
		return unavailableRegistryVerdict(err)
	}
}

// registryProblem may pass without a change of the Secret.
func registryProblem(message string) verdict {
	v := invalidRegistryVerdict(message)
	v.lookAgain = 5 * time.Minute
	return v
}

// imageTag names an image by all that it is made of. The user's wish to build
// again is part of it, because the registry has the image otherwise.
func imageTag(fn *v1alpha2.Function, plan build.Plan) string {
	tag := build.Tag(plan)
	if again := fn.Annotations[v1alpha2.AnnotationRebuild]; again != "" {
		tag += "-" + fingerprint(again)[:8]
	}
	return tag
}

// attempt is the first one for the plan as things are.
func (r *Reconciler) attempt(ctx context.Context, s *scope) (attempt, error) {
	needs, err := json.Marshal(resources.BuildRequirements(s.fn, s.settings.Build.Profile))
	if err != nil {
		return attempt{}, fmt.Errorf("encode the resources of the build: %w", err)
	}
	parts := []string{
		string(needs), s.settings.Build.Builder, fmt.Sprint(s.settings.Build.DeadlineSeconds), fmt.Sprint(s.plan.MaxSize),
		string(s.registry.DockerConfig()), string(r.ca),
	}
	for _, name := range buildSecrets(s.fn) {
		state, err := r.stateOfSecret(ctx, client.ObjectKey{Namespace: s.fn.Namespace, Name: name})
		if err != nil {
			return attempt{}, err
		}
		parts = append(parts, state)
	}
	return attempt{target: s.plan.Target, inputs: fingerprint(parts...)}, nil
}

// pullFails tells whether the pods cannot get the image that they are to run.
func pullFails(s *scope) bool {
	if s.deployment == nil {
		return false
	}
	template := s.deployment.Spec.Template.Annotations[resources.AnnotationTemplate]
	for i := range s.pods {
		pod := &s.pods[i]
		if !pod.DeletionTimestamp.IsZero() || pod.Annotations[resources.AnnotationTemplate] != template {
			continue
		}
		for j := range pod.Status.ContainerStatuses {
			waiting := pod.Status.ContainerStatuses[j].State.Waiting
			if waiting != nil && (waiting.Reason == reasonImagePullBackOff || waiting.Reason == reasonErrImagePull) {
				return true
			}
		}
	}
	return false
}

// podsOf are the pods of a Job. The cache may lag behind the Job.
func (r *Reconciler) podsOf(ctx context.Context, s *scope, job *batchv1.Job) ([]corev1.Pod, error) {
	var found []corev1.Pod
	for i := range s.buildPods {
		if s.buildPods[i].Labels[batchv1.JobNameLabel] == job.Name {
			found = append(found, s.buildPods[i])
		}
	}
	settled := len(found) > 0
	for i := range found {
		settled = settled && found[i].Status.Phase != corev1.PodRunning && found[i].Status.Phase != corev1.PodPending
	}
	if settled || !controllerbuild.Ended(job) {
		return found, nil
	}
	pods := &corev1.PodList{}
	if err := r.live.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return nil, fmt.Errorf("list the pods of Job %q: %w", job.Name, err)
	}
	return pods.Items, nil
}
