package function

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// validate collects what is wrong with a Function beyond the rules of its CRD.
func validate(fn *v1alpha2.Function, settings *resources.Settings) error {
	var problems []string
	for _, check := range []func() []string{
		func() []string { return checkName(fn) },
		func() []string { return checkEnv(fn.Spec.Env) },
		func() []string { return checkDependencies(fn) },
		func() []string { return checkRuntime(fn, settings) },
		func() []string { return checkSecretMounts(fn.Spec.SecretMounts) },
		func() []string { return checkMetadata(fn) },
		func() []string { return checkRepository(fn.Spec.Source.GitRepository) },
		func() []string { return checkResources(fn) },
		func() []string { return checkBuildResources(fn) },
		func() []string { return checkScaling(fn, settings) },
		func() []string { return checkSwitches(fn) },
	} {
		problems = append(problems, check()...)
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, ". "))
}

// checkName: the Service has the Function's name, and so has a label.
func checkName(fn *v1alpha2.Function) []string {
	if len(validation.IsDNS1035Label(fn.Name)) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: %q cannot be the name of a Service. Create the Function under a name of "+
		"at most 63 lower-case letters, digits and '-' that begins with a letter and ends with a letter or digit", fn.Name)}
}

func checkEnv(env []corev1.EnvVar) []string {
	for _, variable := range env {
		if problems := validation.IsEnvVarName(variable.Name); len(problems) > 0 {
			return []string{fmt.Sprintf("spec.env: %s. Err: %s", variable.Name, strings.Join(problems, ". "))}
		}
	}
	return nil
}

func checkRuntime(fn *v1alpha2.Function, settings *resources.Settings) []string {
	if resources.Image(fn, settings) != "" {
		return nil
	}
	return []string{fmt.Sprintf("invalid runtime value: cannot find runtime: %s", fn.Spec.Runtime)}
}

func checkSecretMounts(mounts []v1alpha2.SecretMount) []string {
	var problems []string
	names, paths := make(map[string]bool, len(mounts)), make(map[string]bool, len(mounts))
	for _, mount := range mounts {
		problems = append(problems, validation.IsDNS1123Subdomain(mount.SecretName)...)
		names[mount.SecretName], paths[mount.MountPath] = true, true
	}
	if len(names) < len(mounts) {
		problems = append(problems, "secretNames should be unique")
	}
	if len(paths) < len(mounts) { // server-side apply would refuse it without a reason that users see
		problems = append(problems, "mountPaths should be unique")
	}
	if len(problems) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("invalid spec.secretMounts: %v", problems)}
}

func checkMetadata(fn *v1alpha2.Function) []string {
	var problems []string
	spec := field.NewPath("spec")
	if err := metav1validation.ValidateLabels(fn.Spec.Labels, spec.Child("labels")).ToAggregate(); err != nil {
		problems = append(problems, err.Error())
	}
	if err := apivalidation.ValidateAnnotations(fn.Spec.Annotations, spec.Child("annotations")).ToAggregate(); err != nil {
		problems = append(problems, err.Error())
	}
	return problems
}

func checkRepository(repository *v1alpha2.GitRepositorySource) []string {
	if repository == nil {
		return nil
	}
	if slices.Contains(strings.Split(repository.BaseDir, "/"), "..") {
		return []string{fmt.Sprintf("source.gitRepository.baseDir: %q must be a path within the repository, without '..'", repository.BaseDir)}
	}
	if regexp.MustCompile(`(git|ssh|git@[\w.-]+):[\w.@:/~-]+`).MatchString(repository.URL) {
		return nil
	}
	if _, err := url.ParseRequestURI(repository.URL); err != nil {
		return []string{fmt.Sprintf("source.gitRepository.URL: %v", err)}
	}
	return nil
}

// checkSwitches: a switch that is neither on nor off would be off in silence.
func checkSwitches(fn *v1alpha2.Function) []string {
	switch value, ok := fn.Annotations[v1alpha2.AnnotationRestartOnChange]; {
	case !ok, value == "true", value == "false":
		return nil
	default:
		return []string{fmt.Sprintf("annotation %s: invalid value %q: must be true or false", v1alpha2.AnnotationRestartOnChange, value)}
	}
}

// warnings are what is accepted and should be changed nevertheless.
func warnings(fn *v1alpha2.Function) []string {
	var found []string
	if fn.Spec.Runtime == v1alpha2.RuntimeNodeJS20 {
		found = append(found, "runtime nodejs20 is deprecated and will be removed in the future")
	}
	if own := buildResources(fn); own != nil {
		found = append(found, tooLow("Build", own, corev1.ResourceCPU, minBuildCPU)...)
		found = append(found, tooLow("Build", own, corev1.ResourceMemory, minBuildMemory)...)
	}
	return found
}

func checkScaling(fn *v1alpha2.Function, settings *resources.Settings) []string {
	if fn.Spec.ScaleConfig == nil {
		return nil
	}
	var problems []string
	if low, high := resources.ReplicaBounds(fn); low > high {
		problems = append(problems, "minReplicas should be less than or equal maxReplicas")
	}
	if _, err := resources.TuningOf(fn.Annotations, settings.Scaling.Defaults); err != nil {
		problems = append(problems, strings.ReplaceAll(err.Error(), "\n", ". "))
	}
	return problems
}
