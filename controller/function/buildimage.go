package function

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/registryconfig"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
)

const (
	// registryTimeout bounds the request whether a registry has an image.
	registryTimeout = 5 * time.Second
	// untrustedDelay is how soon a registry whose certificate is not trusted is
	// asked again.
	untrustedDelay = 5 * time.Minute
)

// knownImage is what the status says of the wanted image, nil when that is of
// another one, kept elsewhere, or gone.
func (r *Reconciler) knownImage(ctx context.Context, s *scope, repository, tag string) (*v1alpha2.BuildStatus, error) {
	known := s.fn.Status.Build
	if known == nil || known.Tag != tag || !strings.HasPrefix(known.Image, s.registry.Image(repository, "")) {
		return nil, nil //nolint:nilnil // there is none
	}
	if !pullFails(s) {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	_, digest, _ := strings.Cut(known.Image, "@")
	found, err := s.registry.Holds(ctx, repository, digest)
	if errors.Is(err, registry.ErrForbidden) {
		return known, nil // whether the credentials are right, the pods say
	}
	if err != nil || !found {
		return nil, err
	}
	return known, nil
}

// reach asks the registry for anything, so that no build begins for one that does
// not answer. What it answers does not matter: some refuse to say what is in a
// repository that does not exist yet, and whether the credentials are right, the
// build finds out.
func (r *Reconciler) reach(ctx context.Context, s *scope, repository, tag string) error {
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	_, err := s.registry.Holds(ctx, repository, tag)
	if errors.Is(err, registry.ErrForbidden) {
		return nil
	}
	return err
}

// unreachableRegistryCondition distinguishes what the user has to repair from what is transient.
func unreachableRegistryCondition(at *registryconfig.Registry, err error) conditionUpdate {
	remedy := "Correct"
	switch {
	case errors.Is(err, registry.ErrDenied):
	case errors.Is(err, registry.ErrUntrusted):
		remedy = "Add the registry's authority to the caBundle of the installation, or correct"
	default:
		return unavailableRegistryCondition(err)
	}
	v := invalidRegistryCondition(fmt.Sprintf("%v. %s the address in Secret %s", err, remedy, at.Secret))
	v.requeueAfter = untrustedDelay
	return v
}

// imageTag names an image by all that it is made of. The user's wish to build
// again is part of it, because the registry has the image otherwise.
func imageTag(fn *v1alpha2.Function, plan buildplan.Plan) string {
	tag := buildplan.Tag(plan)
	if again := fn.Annotations[v1alpha2.AnnotationRebuild]; again != "" {
		tag += "-" + fingerprint(again)[:8]
	}
	return tag
}

// pullFails reports whether the pods cannot get the image that they are to run.
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
