package function

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
)

const (
	// registryTimeout bounds the request whether a registry has an image.
	registryTimeout = 5 * time.Second
	// registryQuestions are such requests at a time, and registryQueue those that wait.
	registryQuestions = 16
	registryQueue     = 4096
	// reachFresh is for how long a registry that has answered counts as one that does.
	reachFresh = 3 * time.Second
	// untrustedDelay is how soon a registry whose certificate is not trusted is
	// asked again.
	untrustedDelay = 5 * time.Minute
)

// knownImage is what the status says of the wanted image, nil when that is of
// another one, kept elsewhere, or gone. Answered is true when the registry was
// asked for it, and has answered.
func (r *Reconciler) knownImage(s *scope, repository, tag string) (known *v1alpha2.BuildStatus, answered bool, err error) {
	known = s.fn.Status.Build
	if known == nil || known.Tag != tag || !strings.HasPrefix(known.Image, s.registry.Image(repository, "")) {
		return nil, false, nil
	}
	if !pullFails(s) {
		return known, false, nil
	}
	_, digest, _ := strings.Cut(known.Image, "@")
	found, answered, err := r.images.Answer(client.ObjectKeyFromObject(s.fn), holds(s.registry, repository, digest))
	if !answered || errors.Is(err, registry.ErrForbidden) {
		return known, false, nil // whether the credentials are right, the pods say
	}
	if err != nil || !found {
		return nil, true, err
	}
	return known, true, nil
}

// reach asks the registry for anything, so that no build begins for one that does
// not answer. What it answers does not matter: some refuse to say what is in a
// repository that does not exist yet, and whether the credentials are right, the
// build finds out.
func (r *Reconciler) reach(s *scope, repository, tag string) (answered bool, err error) {
	question := holds(s.registry, repository, tag)
	question.Key, question.Fresh = s.registry, reachFresh
	_, answered, err = r.images.Answer(client.ObjectKeyFromObject(s.fn), question)
	if errors.Is(err, registry.ErrForbidden) {
		return true, nil
	}
	return answered, err
}

// imageAnswers tells whether registries have images.
type imageAnswers interface {
	// Answer is false while a registry has not answered. The Function is reconciled again when it has.
	Answer(fn types.NamespacedName, question Question[bool]) (found, answered bool, err error)
	// Forget ends the interest of a Function.
	Forget(fn types.NamespacedName)
}

// newImages asks registries, a bounded number at a time.
func newImages() *Asker[bool] {
	return NewAsker[bool](AskerLimits{AtATime: registryQuestions, Waiting: registryQueue, Timeout: registryTimeout})
}

// holds asks whether a registry has an image. The namespace of the Secret that names the registry has the slowness of it.
func holds(at *images.Location, repository, identifier string) Question[bool] {
	return Question[bool]{
		Key: heldImage{at, repository, identifier}, Namespace: at.Secret.Namespace,
		Ask: func(ctx context.Context) (bool, error) { return at.Holds(ctx, repository, identifier) },
	}
}

// heldImage is the key of a question. A registry whose Secret changes is another one.
type heldImage struct {
	at                     *images.Location
	repository, identifier string
}

// unreachableRegistryCondition distinguishes what the user has to repair from what is transient.
func unreachableRegistryCondition(at *images.Location, err error) conditionUpdate {
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
