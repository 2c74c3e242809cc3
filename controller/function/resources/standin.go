package resources

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/applyconfig"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// envStandIn is the variable with the SHA-256 of the key of a stand-in. The runtime's server then waits for a Function.
const envStandIn = "FUNC_STAND_IN"

// StandInPolicy names the NetworkPolicy of the stand-ins of a namespace.
const StandInPolicy = "rouse-stand-ins"

// maxStandInEnvironment bounds the environment that is handed over. The server takes 1 MiB.
const maxStandInEnvironment = 512 << 10

// StandIn returns a pod that can serve a Function of the runtime without settings of its own. The digest is the SHA-256
// of the key for the hand-over, in hexadecimal.
func StandIn(namespace, name string, runtime v1alpha2.Runtime, settings *Settings, digest string) (*corev1ac.PodApplyConfiguration, error) {
	fn := standInFunction(namespace, runtime)
	template, err := standInTemplate(fn, settings)
	if err != nil {
		return nil, err
	}
	template.Spec.Containers[0].WithEnv(corev1ac.EnvVar().WithName(envStandIn).WithValue(digest))
	annotations := maps.Clone(template.Annotations) // webhooks read some of them
	delete(annotations, AnnotationVersion)
	return corev1ac.Pod(name, namespace).
		WithLabels(StandInLabels(v1alpha2.StandInWaits, runtime)).
		WithAnnotations(annotations).
		// One that has ended is replaced: it has no Function after a restart.
		WithSpec(template.Spec.WithRestartPolicy(corev1.RestartPolicyNever)), nil
}

// StandInLabels are the labels of a stand-in, beside those of the Function that it serves.
func StandInLabels(state string, runtime v1alpha2.Runtime) map[string]string {
	return map[string]string{
		v1alpha2.LabelManagedBy: v1alpha2.ManagedBy, v1alpha2.LabelStandIn: state, v1alpha2.LabelStandInRuntime: string(runtime),
	}
}

// StandInTemplate returns the value of AnnotationTemplate of current stand-ins.
func StandInTemplate(namespace string, runtime v1alpha2.Runtime, settings *Settings) (string, error) {
	template, err := standInTemplate(standInFunction(namespace, runtime), settings)
	if err != nil {
		return "", err
	}
	return template.Annotations[AnnotationTemplate], nil
}

// ServingLabels are the labels of a stand-in that serves the Function: those of its own pods, so that its Service and
// its NetworkPolicies select it, too.
func ServingLabels(fn *v1alpha2.Function) map[string]string {
	return overlay(podLabels(fn), StandInLabels(v1alpha2.StandInServes, fn.Spec.Runtime))
}

// GracePeriod is the time in seconds that a pod of the Function has to end.
func GracePeriod(fn *v1alpha2.Function) int64 { return gracePeriod(fn) }

func standInFunction(namespace string, runtime v1alpha2.Runtime) *v1alpha2.Function {
	return &v1alpha2.Function{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: v1alpha2.FunctionSpec{Runtime: runtime}}
}

func standInTemplate(fn *v1alpha2.Function, settings *Settings) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	return podTemplate(fn, settings, Workload{Code: Code{Image: settings.Images[string(fn.Spec.Runtime)], Runtime: fn.Spec.Runtime}})
}

// StandInEnvironment returns the environment with which a stand-in serves a Function like a pod of live, the template of
// its Deployment. The error names what a stand-in does not have: a pod that could differ from the Function's own in
// anything but its labels, its grace period and its environment is refused.
func StandInEnvironment(fn *v1alpha2.Function, settings *Settings, live *corev1.PodTemplateSpec) (map[string]string, error) {
	if err := checkSpec(fn, settings); err != nil {
		return nil, err
	}
	code, ok := CodeOf(live)
	if !ok || code.Source == "" || code.Kyma || code.Image != settings.Images[string(code.Runtime)] {
		return nil, errors.New("its code is in an image of its own")
	}
	own, err := podTemplate(fn, settings, Workload{Code: code, Configuration: live.Annotations[AnnotationConfiguration]})
	if err != nil {
		return nil, err
	}
	if own.Annotations[AnnotationTemplate] != live.Annotations[AnnotationTemplate] {
		return nil, errors.New("its Deployment does not have the current spec and settings yet")
	}
	if hasMore(live, own) {
		return nil, errors.New("a service is bound to its pods, or its Deployment was changed")
	}
	standIn, err := standInTemplate(standInFunction(fn.Namespace, code.Runtime), settings)
	if err != nil {
		return nil, err
	}
	same, err := equalButEnvironment(own, standIn)
	if err != nil {
		return nil, err
	}
	if !same {
		return nil, errors.New("its pods differ from stand-ins")
	}
	return environmentOf(live, code.Runtime)
}

// hasMore reports whether others have added to a template what the controller has built.
func hasMore(live *corev1.PodTemplateSpec, own *corev1ac.PodTemplateSpecApplyConfiguration) bool {
	bound := Projected(live)
	return len(bound.Volumes)+len(bound.Containers)+len(bound.InitContainers) > 0 ||
		len(live.Spec.Containers) != 1 || len(live.Spec.InitContainers) != len(own.Spec.InitContainers) || len(live.Spec.Volumes) != len(own.Spec.Volumes)
}

// checkSpec checks the fields of a spec that stand-ins do not follow, for a message that names them.
func checkSpec(fn *v1alpha2.Function, settings *Settings) error {
	switch spec := &fn.Spec; {
	// Webhooks may change a pod with labels or annotations of its own when it is made.
	case len(spec.Labels) > 0:
		return errors.New("spec.labels is set")
	case len(spec.Annotations) > 0:
		return errors.New("spec.annotations is set")
	case len(spec.SecretMounts) > 0:
		return errors.New("spec.secretMounts is set")
	case spec.PodSecurityContext != nil || spec.ContainerSecurityContext != nil:
		return errors.New("a security context is set")
	case spec.RuntimeImageOverride != "":
		return errors.New("spec.runtimeImageOverride is set")
	case fn.Annotations[v1alpha2.AnnotationRollbackTo] != "":
		return fmt.Errorf("annotation %s is set", v1alpha2.AnnotationRollbackTo)
	}
	_, wanted := Requirements(fn, settings)
	_, has := Requirements(standInFunction(fn.Namespace, fn.Spec.Runtime), settings)
	if !within(wanted.Limits, has.Limits) || !within(wanted.Requests, has.Requests) {
		return errors.New("its resources exceed the default profile, which stand-ins have")
	}
	return nil
}

// within reports whether a pod with all of the resources of has is as large as one with those of wanted.
func within(wanted, has corev1.ResourceList) bool {
	for name, quantity := range has {
		if need, bounded := wanted[name]; !bounded || need.Cmp(quantity) > 0 {
			return false
		}
	}
	return len(wanted) == len(has)
}

// equalButEnvironment compares templates without what a stand-in takes over or may have more of.
func equalButEnvironment(a, b *corev1ac.PodTemplateSpecApplyConfiguration) (bool, error) {
	var texts [2]string
	for i, template := range []*corev1ac.PodTemplateSpecApplyConfiguration{a, b} {
		encoded, err := json.Marshal(template.Spec)
		if err != nil {
			return false, fmt.Errorf("compare pod templates: %w", err)
		}
		spec := &corev1.PodSpec{}
		if err := json.Unmarshal(encoded, spec); err != nil {
			return false, fmt.Errorf("compare pod templates: %w", err)
		}
		spec.TerminationGracePeriodSeconds = nil
		for j := range spec.Containers {
			spec.Containers[j].Env, spec.Containers[j].Resources = nil, corev1.ResourceRequirements{}
		}
		if encoded, err = json.Marshal(spec); err != nil {
			return false, fmt.Errorf("compare pod templates: %w", err)
		}
		texts[i] = string(encoded)
	}
	return texts[0] == texts[1], nil
}

// startVariables are the prefixes of the variables that have an effect only when a process starts with them, in each
// language.
var startVariables = []string{"LD_", "MALLOC_", "GLIBC_", "OPENSSL_", "SSL_CERT_", "LANG", "LC_", "TZ", "TMPDIR", "HOME", "PATH", envStandIn}

func environmentOf(live *corev1.PodTemplateSpec, runtime v1alpha2.Runtime) (map[string]string, error) {
	known, err := languages.Of(runtime)
	if err != nil {
		return nil, err
	}
	if known.Compiled != nil {
		return nil, fmt.Errorf("a Function in %s is compiled into an image of its own", known.Title)
	}
	early := slices.Concat(startVariables, known.StartVariables)
	preset := map[string]string{}
	for _, variable := range known.Environment {
		preset[variable.Name] = variable.Value
	}
	environment, length := map[string]string{}, 0
	for _, variable := range live.Spec.Containers[0].Env {
		value, has := preset[variable.Name]
		switch {
		case has && value == variable.Value:
		case variable.ValueFrom != nil:
			return nil, fmt.Errorf("the variable %s comes from another object", variable.Name)
		case strings.Contains(variable.Value, "$(") || strings.Contains(variable.Value, "$$"):
			return nil, fmt.Errorf("the variable %s refers to others", variable.Name)
		case slices.ContainsFunc(early, func(prefix string) bool { return strings.HasPrefix(variable.Name, prefix) }):
			return nil, fmt.Errorf("the variable %s has to be there when the process starts", variable.Name)
		}
		environment[variable.Name] = variable.Value
		length += len(variable.Name) + len(variable.Value)
	}
	if length > maxStandInEnvironment {
		return nil, fmt.Errorf("its environment of %d bytes is longer than %d", length, maxStandInEnvironment)
	}
	return environment, nil
}

// StandInNetworkPolicy restricts stand-ins like the pods of all Functions, before they serve one and afterwards.
func StandInNetworkPolicy(namespace string, settings *Settings) (*networkingv1ac.NetworkPolicyApplyConfiguration, error) {
	policy, err := NetworkPolicy(standInFunction(namespace, ""), settings)
	if err != nil {
		return nil, err
	}
	policy.WithName(StandInPolicy).OwnerReferences = nil
	policy.Labels = map[string]string{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy}
	selector, err := applyconfig.Of[networkingv1ac.NetworkPolicySpecApplyConfiguration](map[string]any{"podSelector": metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1alpha2.LabelStandIn, Operator: metav1.LabelSelectorOpExists}},
	}})
	if err != nil {
		return nil, err
	}
	policy.Spec.PodSelector = selector.PodSelector
	return policy, nil
}

// ParseStandIns reads AnnotationStandIns. Runtimes that cannot have any, and numbers that are none, are in the error,
// and the others in the result.
func ParseStandIns(text string, settings *Settings) (map[v1alpha2.Runtime]int, error) {
	wanted := map[v1alpha2.Runtime]int{}
	var problems []error
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, number, _ := strings.Cut(entry, "=")
		name = strings.TrimSpace(name)
		n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 16)
		if err != nil {
			problems = append(problems, fmt.Errorf("%q is not runtime=number", entry))
			continue
		}
		switch known, err := languages.Of(name); {
		case err != nil:
			problems = append(problems, err)
		case known.Compiled != nil:
			problems = append(problems, fmt.Errorf("%s is compiled, and has no stand-ins", name))
		case settings.Images[name] == "":
			problems = append(problems, fmt.Errorf("the installation has no image of %s; it has %s", name, strings.Join(slices.Sorted(maps.Keys(settings.Images)), ", ")))
		default:
			wanted[v1alpha2.Runtime(name)] = int(n)
		}
	}
	if len(problems) > 0 {
		return wanted, fmt.Errorf("annotation %s: %w", v1alpha2.AnnotationStandIns, errors.Join(problems...))
	}
	return wanted, nil
}
