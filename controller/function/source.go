package function

import (
	"fmt"
	"strings"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/workload"
)

// maxInput is what fits a Secret beside its names.
const maxInput = 1<<20 - 16<<10

// supply is how a Function gets its code.
type supply struct {
	// source travels in the environment of the pods. It is empty when it is in
	// the image.
	source string
	// inline does so in the form of Kyma's contract, for images of that.
	inline *workload.Inline
	// plan is of an image that has to be built, nil when the runtime's is enough.
	// The commit of a Git repository is not known yet, nor where the image goes.
	plan *buildplan.Plan
}

// supplyOf decides how the code reaches the pods. A small source never goes into
// an image: with dependencies that stay the same, changing it needs no build, unless
// its language is compiled.
// The CA certificates travel beside the plan. The error is for the user.
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

// supplyByKyma is supplyOf for an image of Kyma's contract. What does not fit the
// environment of a pod is prepared in it, as without a registry: nothing is built.
func supplyByKyma(fn *v1alpha2.Function, base string, ca []byte) (supply, error) {
	inline := fn.Spec.Source.Inline
	if inline == nil {
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

// checkInput makes sure that the input of the builder fits its Secret.
func checkInput(plan *buildplan.Plan, ca []byte) error {
	content, err := buildplan.EncodePlan(*plan)
	if err != nil {
		return err
	}
	if size := len(content) + len(ca); size > maxInput {
		return fmt.Errorf("spec.source.inline is too large: with what it is built by it has %d bytes when compressed, "+
			"and %d fit. Move data out of the code, or keep the code in a Git repository and name that in spec.source.gitRepository",
			size, maxInput)
	}
	return nil
}
