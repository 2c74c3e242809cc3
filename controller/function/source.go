package function

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/admission"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/workload"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// maxInput is the size that fits into a Secret with its names.
const maxInput = 1<<20 - 16<<10

// decide validates the spec and determines what the Function should be.
func (r *Reconciler) decide(_ context.Context, s *scope) error {
	refuse := func(reason string, err error) error {
		return kube.Stalled(&failure{
			condition: v1alpha2.ConditionConfigurationReady, reason: reason, message: err.Error(), err: err,
		})
	}
	base := resources.Image(s.fn, s.settings)
	problems := admission.Function(s.fn, base != "")
	if s.settings.Build.FIPS.Asked() {
		problems = append(problems, admission.FIPS(s.fn)...)
	}
	if err := problems.Err(); err != nil {
		return refuse(v1alpha2.ReasonInvalidSpec, err)
	}
	kyma, supply := resources.FollowsKyma(s.fn, s.settings), supplyOf
	if kyma {
		supply = supplyByKyma
	}
	found, err := supply(s.fn, base, r.ca)
	if err != nil {
		return refuse(v1alpha2.ReasonInvalidSpec, err)
	}
	s.code = resources.Code{Source: found.source, Runtime: s.fn.Spec.Runtime, Kyma: kyma, Inline: found.inline}
	if s.plan = found.plan; s.plan == nil {
		s.code.Image = base
	} else {
		s.plan.MaxSize = s.settings.Build.MaxImageSize
	}
	if !s.scaled() {
		return nil
	}
	if s.tuning, err = workload.TuningOf(s.fn.Annotations, s.settings.Scaling.Defaults); err != nil {
		return err
	}
	if s.triggers, err = resources.TriggersOf(s.fn.Annotations, s.settings.Scaling.TriggerTypes); err != nil {
		return refuse(v1alpha2.ReasonInvalidSpec, err)
	}
	return nil
}

// supply describes how a Function gets its code.
type supply struct {
	// source travels in the environment of the pods. It is empty when the image contains it.
	source string
	// inline travels in the environment in the form of Kyma's contract, for images that follow it.
	inline *workload.Inline
	// plan describes an image that has to be built, nil when the runtime's image is enough. The commit of a Git
	// repository and the target of the image are filled in later.
	plan *buildplan.Plan
}

// supplyOf decides how the code reaches the pods. A small source never goes into an image, so changing it needs no
// build while the dependencies stay the same, unless its language is compiled. The CA certificates are stored with the
// plan. The error is shown to the user.
func supplyOf(fn *v1alpha2.Function, base string, ca []byte) (supply, error) {
	plan := planOn(base, fn)
	if repository := fn.Spec.Source.GitRepository; repository != nil {
		plan.Git = &buildplan.Git{URL: repository.URL, Reference: repository.Reference, BaseDir: repository.BaseDir}
		if repository.Auth != nil {
			plan.Git.Auth = string(repository.Auth.Type)
		}
		return supply{plan: plan}, nil
	}
	inline := fn.Spec.Source.Inline
	if filesOf(fn) != "" { // they may have a manifest and a handler, which take precedence
		plan.Source, plan.Dependencies = inline.Source, inline.Dependencies
		return supply{plan: plan}, nil
	}
	if workload.HasDependencies(fn.Spec.Runtime, inline.Dependencies) {
		plan.Dependencies = inline.Dependencies
	}
	if workload.IsCompiled(fn.Spec.Runtime) {
		plan.Source = inline.Source
		return supply{plan: plan}, checkInput(plan, ca)
	}
	encoded, err := workload.EncodeSource(inline.Source)
	if err != nil {
		return supply{}, err
	}
	if len(encoded) > workload.MaxSource {
		plan.Source, encoded = inline.Source, ""
	}
	if plan.Source == "" && plan.Dependencies == "" {
		return supply{source: encoded}, nil
	}
	return supply{source: encoded, plan: plan}, checkInput(plan, ca)
}

// supplyByKyma is supplyOf for an image that follows Kyma's contract. Code that does not fit into the environment of a
// pod is prepared in the pod, as without a registry: nothing is built.
func supplyByKyma(fn *v1alpha2.Function, base string, ca []byte) (supply, error) {
	inline := fn.Spec.Source.Inline
	if inline == nil || filesOf(fn) != "" {
		return supplyOf(fn, base, ca)
	}
	code := &workload.Inline{Source: inline.Source, Dependencies: strings.TrimSpace(inline.Dependencies)}
	if code.FitsEnvironment() {
		return supply{inline: code}, nil
	}
	plan := planOn(base, fn)
	plan.Source, plan.Dependencies = code.Source, code.Dependencies
	return supply{plan: plan}, checkInput(plan, ca)
}

func planOn(base string, fn *v1alpha2.Function) *buildplan.Plan {
	return &buildplan.Plan{
		Function: fn.Namespace + "/" + fn.Name, Owner: string(fn.UID), Runtime: string(fn.Spec.Runtime), Base: base,
		OwnBase: fn.Spec.RuntimeImageOverride != "",
	}
}

// checkInput checks that the input of the builder fits into its Secret.
func checkInput(plan *buildplan.Plan, ca []byte) error {
	content, err := buildplan.EncodePlan(*plan)
	if err != nil {
		return err
	}
	if size := len(content) + len(ca); size > maxInput && plan.Files != nil {
		return fmt.Errorf("the files are too large: the build input has %d bytes when compressed, and at most %d are allowed. "+
			"Leave out what the Function does not need, or keep the code in a Git repository and name that in spec.source.gitRepository", size, maxInput)
	}
	if size := len(content) + len(ca); size > maxInput {
		return fmt.Errorf("spec.source.inline is too large: the build input has %d bytes when compressed, "+
			"and at most %d are allowed. Move data out of the code, or keep the code in a Git repository and name that in spec.source.gitRepository",
			size, maxInput)
	}
	return nil
}

// overridden reports whether the pods run an image of the user's.
func (s *scope) overridden() bool { return s.fn.Spec.RuntimeImageOverride != "" }

// overrideHint describes what the user's image has to provide. The controller cannot tell why a foreign image does not
// answer.
func overrideHint(s *scope) string {
	own := "one of the installation's runtime images"
	if base := s.settings.Images[string(s.fn.Spec.Runtime)]; base != "" {
		own = base
	}
	if !s.code.Kyma {
		return fmt.Sprintf("spec.runtimeImageOverride names %s, which must contain the server of a runtime of Rouse and its entry point: "+
			"make it FROM %s, or set the annotation %s to %s if it follows Kyma's contract",
			s.fn.Spec.RuntimeImageOverride, own, v1alpha2.AnnotationRuntimeContract, v1alpha2.RuntimeContractKyma)
	}
	known, err := languages.Of(s.fn.Spec.Runtime)
	if err != nil {
		return err.Error()
	}
	if known.Kyma == nil {
		return fmt.Sprintf("images of %s cannot follow Kyma's contract; set the annotation %s to %s",
			known.Title, v1alpha2.AnnotationRuntimeContract, v1alpha2.RuntimeContractRouse)
	}
	return fmt.Sprintf("spec.runtimeImageOverride names %s, which must contain, by Kyma's contract, a server that %s and listens on "+
		"port 8080. Or make it FROM %s and set the annotation %s to %s",
		s.fn.Spec.RuntimeImageOverride, known.Kyma.Server, own, v1alpha2.AnnotationRuntimeContract, v1alpha2.RuntimeContractRouse)
}

// prepareInPods lets every pod install its own dependencies, because there is no registry for an image, or because the
// pod's image follows Kyma's contract.
func (r *Reconciler) prepareInPods(ctx context.Context, s *scope) error {
	id := fingerprint(imageTag(s.fn, *s.plan), string(r.ca))[:10]
	name := resources.PreparationName(s.fn, id)
	s.code.Image = s.plan.Base
	s.code.Prepared = resources.Prepared{Input: name, GitSecret: gitSecret(s.fn)}

	err := r.client.Get(ctx, client.ObjectKey{Namespace: s.fn.Namespace, Name: name}, metadataOf(kindSecret))
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for Secret %q: %w", name, err)
	}
	if err := r.applyInput(ctx, s, name, resources.ResourcePreparation); err != nil {
		return err
	}
	return r.clearPreparations(ctx, s, name)
}

// clearPreparations deletes the Secrets of versions that a rollback can no longer choose.
func (r *Reconciler) clearPreparations(ctx context.Context, s *scope, present string) error {
	sets := &appsv1.ReplicaSetList{}
	err := r.live.List(ctx, sets, client.InNamespace(s.fn.Namespace), client.MatchingLabels(resources.SelectorLabels(s.fn)))
	if err != nil {
		return fmt.Errorf("list the earlier versions of %q: %w", s.fn.Name, err)
	}
	used := map[string]bool{present: true}
	for _, code := range versionsOf(sets.Items) {
		used[code.Prepared.Input] = true
	}
	return r.deleteSecrets(ctx, s, resources.PreparationLabels(s.fn), used)
}
