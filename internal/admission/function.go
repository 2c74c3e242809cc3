package admission

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// Function returns the problems of a Function that the rules of its CRD do not cover. runs reports whether the
// installation has the Function's runtime.
func Function(fn *v1alpha2.Function, runs bool) Problems {
	var problems Problems
	spec := field.NewPath("spec")
	for _, check := range []func() Problems{
		func() Problems { return checkName(fn) },
		func() Problems { return checkEnv(spec.Child("env"), fn.Spec.Env) },
		func() Problems { return checkDependencies(spec.Child("source", "inline", "dependencies"), fn) },
		func() Problems { return checkRuntime(spec.Child("runtime"), fn, runs) },
		func() Problems { return checkSecretMounts(spec.Child("secretMounts"), fn.Spec.SecretMounts) },
		func() Problems { return checkMetadata(fn) },
		func() Problems { return checkRepository(spec.Child("source", "gitRepository"), fn) },
		func() Problems { return checkResources(fn) },
		func() Problems { return checkBuildResources(fn) },
		func() Problems { return checkScaling(fn) },
		func() Problems { return checkSwitches(fn) },
		func() Problems { return checkContract(fn) },
		func() Problems { return checkFiles(fn) },
	} {
		problems = append(problems, check()...)
	}
	return problems
}

// FunctionWarnings returns warnings for settings that are accepted but should be changed.
func FunctionWarnings(fn *v1alpha2.Function) Problems {
	var found Problems
	if known, err := languages.Of(fn.Spec.Runtime); err == nil && known.Runtime(string(fn.Spec.Runtime)).Deprecated {
		found = Problems{problemAt(field.NewPath("spec", "runtime"),
			fmt.Sprintf("runtime %s is deprecated and will be removed in the future", fn.Spec.Runtime))}
	}
	if own := buildResources(fn); own != nil {
		found = append(found, buildOwner().tooLow(own, corev1.ResourceCPU, minBuildCPU)...)
		found = append(found, buildOwner().tooLow(own, corev1.ResourceMemory, minBuildMemory)...)
	}
	return found
}

// checkName validates the name as the name of a Service and the value of a label, since the Function has both.
func checkName(fn *v1alpha2.Function) Problems {
	if len(validation.IsDNS1035Label(fn.Name)) == 0 {
		return nil
	}
	return Problems{problemAt(field.NewPath("metadata", "name"), fmt.Sprintf(
		"metadata.name: %q cannot be the name of a Service. Create the Function under a name of "+
			"at most 63 lower-case letters, digits and '-' that begins with a letter and ends with a letter or digit", fn.Name))}
}

func checkEnv(path *field.Path, env []corev1.EnvVar) Problems {
	for i, variable := range env {
		if wrong := validation.IsEnvVarName(variable.Name); len(wrong) > 0 {
			return Problems{problemAt(path.Index(i).Child("name"),
				fmt.Sprintf("spec.env: %s. Err: %s", variable.Name, strings.Join(wrong, ". ")))}
		}
	}
	return nil
}

func checkRuntime(path *field.Path, fn *v1alpha2.Function, runs bool) Problems {
	if runs {
		return nil
	}
	return Problems{problemAt(path, fmt.Sprintf("invalid runtime value: cannot find runtime: %s", fn.Spec.Runtime))}
}

// checkSecretMounts reports all problems in one text, at the first invalid mount.
func checkSecretMounts(path *field.Path, mounts []v1alpha2.SecretMount) Problems {
	var wrong []string
	at := path
	note := func(i int, name string, texts ...string) {
		if len(texts) > 0 && at == path {
			at = path.Index(i).Child(name)
		}
		for _, text := range texts {
			wrong = append(wrong, fmt.Sprintf("%s (Secret %q at %s)", text, mounts[i].SecretName, mounts[i].MountPath))
		}
	}
	for i, mount := range mounts {
		note(i, "secretName", validation.IsDNS1123Subdomain(mount.SecretName)...)
	}
	if i := repeated(mounts, func(m v1alpha2.SecretMount) string { return m.SecretName }); i > 0 {
		note(i, "secretName", "secretNames should be unique")
	}
	// Server-side apply would reject a repeated path without a reason that users see.
	if i := repeated(mounts, func(m v1alpha2.SecretMount) string { return m.MountPath }); i > 0 {
		note(i, "mountPath", "mountPaths should be unique")
	}
	if len(wrong) == 0 {
		return nil
	}
	return Problems{problemAt(at, fmt.Sprintf("invalid spec.secretMounts: %v", wrong))}
}

// repeated returns the index of the first mount whose value repeats that of an earlier mount, or 0.
func repeated(mounts []v1alpha2.SecretMount, value func(v1alpha2.SecretMount) string) int {
	seen := make(map[string]bool, len(mounts))
	return max(0, slices.IndexFunc(mounts, func(m v1alpha2.SecretMount) bool {
		before := seen[value(m)]
		seen[value(m)] = true
		return before
	}))
}

func checkRepository(path *field.Path, fn *v1alpha2.Function) Problems {
	repository := fn.Spec.Source.GitRepository
	if repository == nil {
		return nil
	}
	if older := fn.Annotations[v1alpha1.AnnotationGitRepository]; older != "" && repository.URL == "" {
		return Problems{problemAt(path.Child("url"), fmt.Sprintf("source.gitRepository.URL: it is empty, as GitRepository %s/%s is missing or has none: "+
			"create it with spec.url where v1alpha1 is served, or write the URL into the Function", fn.Namespace, older))}
	}
	if slices.Contains(strings.Split(repository.BaseDir, "/"), "..") {
		return Problems{problemAt(path.Child("baseDir"), fmt.Sprintf(
			"source.gitRepository.baseDir: %q must be a path within the repository, without '..'", repository.BaseDir))}
	}
	if regexp.MustCompile(`(git|ssh|git@[\w.-]+):[\w.@:/~-]+`).MatchString(repository.URL) {
		return nil
	}
	if _, err := url.ParseRequestURI(repository.URL); err != nil {
		return Problems{problemAt(path.Child("url"), fmt.Sprintf("source.gitRepository.URL: %v", err))}
	}
	return nil
}

// checkSwitches rejects a value that is neither true nor false, which would silently mean false.
func checkSwitches(fn *v1alpha2.Function) Problems {
	const key = v1alpha2.AnnotationRestartOnChange
	switch value, ok := fn.Annotations[key]; {
	case !ok, value == "true", value == "false":
		return nil
	default:
		return Problems{problemAt(annotation(key), fmt.Sprintf("annotation %s: invalid value %q: must be true or false", key, value))}
	}
}

// checkContract rejects unknown contracts, which would be taken for one of the two.
func checkContract(fn *v1alpha2.Function) Problems {
	const key = v1alpha2.AnnotationRuntimeContract
	value, ok := fn.Annotations[key]
	if known, err := languages.Of(fn.Spec.Runtime); err == nil && known.Kyma == nil && value == v1alpha2.RuntimeContractKyma {
		return Problems{problemAt(annotation(key), fmt.Sprintf("annotation %s: images of %s follow no contract of Kyma: take it away, or set it to %s",
			key, known.Title, v1alpha2.RuntimeContractRouse))}
	}
	switch {
	case !ok, value == v1alpha2.RuntimeContractRouse, value == v1alpha2.RuntimeContractKyma:
		return nil
	default:
		return Problems{problemAt(annotation(key), fmt.Sprintf("annotation %s: invalid value %q: must be %s or %s, for the image of "+
			"spec.runtimeImageOverride", key, value, v1alpha2.RuntimeContractRouse, v1alpha2.RuntimeContractKyma))}
	}
}

// checkFiles checks the name of the ConfigMap with the files of the source.
func checkFiles(fn *v1alpha2.Function) Problems {
	const key = v1alpha2.AnnotationFiles
	path := field.NewPath("spec", "annotations").Key(key)
	name, named := fn.Spec.Annotations[key]
	switch {
	case !named:
		return nil
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return Problems{problemAt(path, fmt.Sprintf(
			"spec.annotations: %s: invalid value %q: must be the name of a ConfigMap in the Function's namespace", key, name))}
	case fn.Spec.Source.Inline == nil:
		return Problems{problemAt(path, fmt.Sprintf(
			"spec.annotations: %s: files belong to an inline source: remove it, or replace spec.source.gitRepository", key))}
	}
	return nil
}

func checkScaling(fn *v1alpha2.Function) Problems {
	if fn.Spec.ScaleConfig == nil {
		return nil
	}
	var problems Problems
	if low, high := workload.ReplicaBounds(fn); low > high {
		problems = Problems{problemAt(field.NewPath("spec", "scaleConfig", "minReplicas"),
			"minReplicas should be less than or equal maxReplicas")}
	}
	for _, wrong := range workload.TuningErrors(fn.Annotations) {
		problems = append(problems, problemAt(annotation(wrong.Key), wrong.Text))
	}
	return problems
}

func annotation(key string) *field.Path { return field.NewPath("metadata", "annotations").Key(key) }

// The minimum of a Function's own resources.
const (
	minCPU    = "10m"
	minMemory = "16Mi"
)

// The recommended minimum of a build. Smaller values are accepted for compatibility, but may not suffice.
const (
	minBuildCPU    = "200m"
	minBuildMemory = "200Mi"
)

// resourceOwner is the owner of the checked resources, with their field.
type resourceOwner struct {
	name string
	path *field.Path
}

func functionOwner() resourceOwner {
	return resourceOwner{name: "Function", path: field.NewPath("spec", "resourceConfiguration", "function", "resources")}
}

func buildOwner() resourceOwner {
	return resourceOwner{name: "Build", path: field.NewPath("spec", "resourceConfiguration", "build", "resources")}
}

// checkResources checks only the fields that are set: a missing limit is unlimited and therefore cannot be below the
// minimum or the request.
func checkResources(fn *v1alpha2.Function) Problems {
	config := fn.Spec.ResourceConfiguration
	if config == nil || config.Function == nil || config.Function.Resources == nil {
		return nil
	}
	own := config.Function.Resources
	var problems Problems
	for _, kind := range []struct {
		name corev1.ResourceName
		low  string
	}{{corev1.ResourceCPU, minCPU}, {corev1.ResourceMemory, minMemory}} {
		problems = append(problems, functionOwner().tooLow(own, kind.name, kind.low)...)
		problems = append(problems, functionOwner().tooHigh(own, kind.name)...)
	}
	return problems
}

// tooLow compares the requests and limits of one resource with its minimum.
func (o resourceOwner) tooLow(own *corev1.ResourceRequirements, kind corev1.ResourceName, least string) Problems {
	var problems Problems
	low := resource.MustParse(least)
	if limit, ok := own.Limits[kind]; ok && limit.Cmp(low) < 0 {
		problems = append(problems, problemAt(o.path.Child("limits").Key(string(kind)), fmt.Sprintf(
			"%s limits %s(%s) should be higher than minimal value (%s)", o.name, kind, limit.String(), low.String())))
	}
	if request, ok := own.Requests[kind]; ok && request.Cmp(low) < 0 {
		problems = append(problems, problemAt(o.path.Child("requests").Key(string(kind)), fmt.Sprintf(
			"%s request %s(%s) should be higher than minimal value (%s)", o.name, kind, request.String(), low.String())))
	}
	return problems
}

// tooHigh compares the request of one resource with its limit.
func (o resourceOwner) tooHigh(own *corev1.ResourceRequirements, kind corev1.ResourceName) Problems {
	limit, limited := own.Limits[kind]
	request, requested := own.Requests[kind]
	if !limited || !requested || limit.Cmp(request) >= 0 {
		return nil
	}
	return Problems{problemAt(o.path.Child("limits").Key(string(kind)), fmt.Sprintf(
		"%s limits %s(%s) should be higher than requests %s(%s)", o.name, kind, limit.String(), kind, request.String()))}
}

// buildResources returns the requests and limits of a build in the spec.
func buildResources(fn *v1alpha2.Function) *corev1.ResourceRequirements {
	config := fn.Spec.ResourceConfiguration
	if config == nil || config.Build == nil {
		return nil
	}
	return config.Build.Resources
}

// checkBuildResources rejects resources that no pod can have.
func checkBuildResources(fn *v1alpha2.Function) Problems {
	own := buildResources(fn)
	if own == nil {
		return nil
	}
	return append(buildOwner().tooHigh(own, corev1.ResourceCPU), buildOwner().tooHigh(own, corev1.ResourceMemory)...)
}

// checkDependencies parses the manifest as far as its language does. The package manager validates the rest.
func checkDependencies(path *field.Path, fn *v1alpha2.Function) Problems {
	if fn.Spec.Source.Inline == nil {
		return nil
	}
	const prefix = "invalid source.inline.dependencies value: "
	known, err := languages.Of(fn.Spec.Runtime)
	if err != nil {
		return Problems{problemAt(path, prefix+"cannot find runtime: "+string(fn.Spec.Runtime))}
	}
	if known.Packages.Validate == nil {
		return nil
	}
	if problem := known.Packages.Validate(fn.Spec.Source.Inline.Dependencies); problem != "" {
		return Problems{problemAt(path, prefix+problem)}
	}
	return nil
}

// FIPS returns the additional problems of a Function in an installation in a FIPS 140-3 mode. The rules are Kyma's.
func FIPS(fn *v1alpha2.Function) Problems {
	spec := field.NewPath("spec")
	return append(checkRuntimeFIPS(spec.Child("runtime"), fn), checkRepositoryFIPS(spec.Child("source", "gitRepository", "url"), fn)...)
}

func checkRuntimeFIPS(path *field.Path, fn *v1alpha2.Function) Problems {
	known, err := languages.Of(fn.Spec.Runtime)
	if err != nil || !known.Runtime(string(fn.Spec.Runtime)).NoFIPS {
		return nil // an unknown runtime is another rule's problem
	}
	var others []string
	for _, runtime := range known.Runtimes {
		if !runtime.NoFIPS {
			others = append(others, runtime.Name)
		}
	}
	return Problems{problemAt(path, fmt.Sprintf("spec.runtime: %s is refused in FIPS mode, since there is no base image with a validated module for it. "+
		"Use %s", fn.Spec.Runtime, strings.Join(others, " or ")))}
}

// checkRepositoryFIPS accepts only HTTP URLs: SSH has URLs of many forms, and no other protocol is supported.
func checkRepositoryFIPS(path *field.Path, fn *v1alpha2.Function) Problems {
	repository := fn.Spec.Source.GitRepository
	if repository == nil || repository.URL == "" {
		return nil
	}
	if read, err := url.Parse(strings.TrimSpace(repository.URL)); err == nil && (read.Scheme == "https" || read.Scheme == "http") {
		return nil
	}
	return Problems{problemAt(path, "source.gitRepository.URL: Git over SSH is refused in FIPS mode, since its algorithms are not those of a validated module. "+
		"Use an https:// URL, with auth.type basic where it needs credentials")}
}
