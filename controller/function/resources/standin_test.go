package resources

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// templateOf is the pod template of a Function's Deployment in the cluster.
func templateOf(t *testing.T, fn *v1alpha2.Function, wanted Workload) *corev1.PodTemplateSpec {
	t.Helper()
	built, err := podTemplate(fn, settings(), wanted)
	require.NoError(t, err)
	encoded, err := json.Marshal(built)
	require.NoError(t, err)
	live := &corev1.PodTemplateSpec{}
	require.NoError(t, json.Unmarshal(encoded, live))
	return live
}

func TestAStandInGetsTheEnvironmentOfTheFunctionsOwnPod(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]*v1alpha2.Function{
		"Node.js": function(),
		"Python":  function(python),
		"a longer timeout": function(func(fn *v1alpha2.Function) {
			fn.Spec.Env = []corev1.EnvVar{{Name: "FUNC_TIMEOUT", Value: "300"}, {Name: "PRICE", Value: "5 $"}}
		}),
		"a smaller profile": function(func(fn *v1alpha2.Function) {
			fn.Spec.ResourceConfiguration = &v1alpha2.ResourceConfiguration{Function: &v1alpha2.ResourceRequirements{Profile: "XS"}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := templateOf(t, fn, Workload{Code: code(fn, "c291cmNl"), Configuration: "hash"})
			environment, err := StandInEnvironment(fn, settings(), live)
			require.NoError(t, err)
			require.Len(t, environment, len(live.Spec.Containers[0].Env))
			for _, variable := range live.Spec.Containers[0].Env {
				require.Equal(t, variable.Value, environment[variable.Name], variable.Name)
			}
			require.Equal(t, "c291cmNl", environment["FUNC_HANDLER_SOURCE"])
		})
	}
}

func TestAFunctionWhosePodDiffersFromStandInsGetsNone(t *testing.T) {
	t.Parallel()
	env := func(variable corev1.EnvVar) option {
		return func(fn *v1alpha2.Function) { fn.Spec.Env = []corev1.EnvVar{variable} }
	}
	secret := &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Key: "b"}}
	for name, tc := range map[string]struct {
		change option
		live   func(*corev1.PodTemplateSpec)
		reason string
	}{
		"a Secret in its environment": {env(corev1.EnvVar{Name: "TOKEN", ValueFrom: secret}), nil, "the variable TOKEN comes from another object"},
		"a variable of variables":     {env(corev1.EnvVar{Name: "URL", Value: "http://$(HOST)/"}), nil, "the variable URL refers to others"},
		"an option of the interpreter": {
			env(corev1.EnvVar{Name: "NODE_OPTIONS", Value: "--import=/x"}), nil, "the variable NODE_OPTIONS has to be there when the process starts",
		},
		"a library to preload": {env(corev1.EnvVar{Name: "LD_PRELOAD", Value: "/x"}), nil, "the variable LD_PRELOAD"},
		"a mounted Secret": {func(fn *v1alpha2.Function) {
			fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "a", MountPath: "/a"}}
		}, nil, "spec.secretMounts is set"},
		"labels":             {func(fn *v1alpha2.Function) { fn.Spec.Labels = map[string]string{"a": "b"} }, nil, "spec.labels is set"},
		"annotations":        {func(fn *v1alpha2.Function) { fn.Spec.Annotations = map[string]string{"a": "b"} }, nil, "spec.annotations is set"},
		"a security context": {func(fn *v1alpha2.Function) { fn.Spec.PodSecurityContext = &corev1.PodSecurityContext{} }, nil, "a security context is set"},
		"an image of its own": {func(fn *v1alpha2.Function) {
			fn.Spec.RuntimeImageOverride = "registry.example.com/rouse-runtime-nodejs22:2"
		}, nil, "spec.runtimeImageOverride is set"},
		"a rollback": {func(fn *v1alpha2.Function) {
			fn.Annotations = map[string]string{v1alpha2.AnnotationRollbackTo: "previous"}
		}, nil, "rouse.run/rollback-to"},
		"a larger profile": {func(fn *v1alpha2.Function) { fn.Spec.ResourceConfiguration = profileOf("XL") }, nil, "its resources exceed the default profile"},
		"no limit of resources": {func(fn *v1alpha2.Function) {
			fn.Spec.ResourceConfiguration = resourcesOf(corev1.ResourceRequirements{})
		}, nil, "its resources exceed the default profile"},
		"a GPU": {func(fn *v1alpha2.Function) {
			requirements, _ := Profile("L")
			requirements.Limits["example.com/gpu"] = resource.MustParse("1")
			fn.Spec.ResourceConfiguration = resourcesOf(requirements)
		}, nil, "its resources exceed the default profile"},
		"a Deployment of an earlier spec": {nil, func(live *corev1.PodTemplateSpec) { live.Annotations[AnnotationTemplate] = "earlier" }, "does not have the current spec"},
		"a built image": {nil, func(live *corev1.PodTemplateSpec) {
			live.Spec.Containers[0].Image = "registry/functions/shop/price@sha256:1"
		}, "its code is in an image of its own"},
		"a large environment": {env(corev1.EnvVar{Name: "BIG", Value: strings.Repeat("x", maxStandInEnvironment)}), nil, "is longer than"},
		"a service that is bound": {nil, func(live *corev1.PodTemplateSpec) {
			live.Annotations[secretAnnotation+"1"] = "db"
			live.Spec.Volumes = append(live.Spec.Volumes, corev1.Volume{Name: "servicebinding-1"})
		}, "a service is bound"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := function()
			if tc.change != nil {
				tc.change(fn)
			}
			live := templateOf(t, fn, Workload{Code: code(fn, "c291cmNl")})
			if tc.live != nil {
				tc.live(live)
			}
			_, err := StandInEnvironment(fn, settings(), live)
			require.ErrorContains(t, err, tc.reason)
		})
	}
}

func profileOf(name string) *v1alpha2.ResourceConfiguration {
	return &v1alpha2.ResourceConfiguration{Function: &v1alpha2.ResourceRequirements{Profile: name}}
}

func resourcesOf(requirements corev1.ResourceRequirements) *v1alpha2.ResourceConfiguration {
	return &v1alpha2.ResourceConfiguration{Function: &v1alpha2.ResourceRequirements{Resources: &requirements}}
}

func TestAStandInIsAPodOfTheRuntimeWithoutAFunction(t *testing.T) {
	t.Parallel()
	pod, err := StandIn("shop", "rouse-stand-in-nodejs22-a", v1alpha2.RuntimeNodeJS22, settings(), "digest")
	require.NoError(t, err)
	requireGolden(t, "standin", pod)
}

func TestThePolicyOfStandInsHasTheRulesOfFunctions(t *testing.T) {
	t.Parallel()
	bounded := settings()
	bounded.Network = &NetworkRules{DNSPorts: []int32{53}, Publisher: Publisher{Ports: []int32{8080}}}
	own, err := NetworkPolicy(function(), bounded)
	require.NoError(t, err)
	standIns, err := StandInNetworkPolicy("shop", bounded)
	require.NoError(t, err)
	require.Equal(t, own.Spec.Ingress, standIns.Spec.Ingress)
	require.Equal(t, own.Spec.Egress, standIns.Spec.Egress)
	require.Equal(t, v1alpha2.LabelStandIn, *standIns.Spec.PodSelector.MatchExpressions[0].Key)
	require.Empty(t, standIns.Spec.PodSelector.MatchLabels)
	require.Empty(t, standIns.OwnerReferences)
}

func TestTheAnnotationListsRuntimesWithNumbers(t *testing.T) {
	t.Parallel()
	known := settings()
	known.Images["go126"] = "registry.example.com/rouse-runtime-go126:1"
	for text, tc := range map[string]struct {
		wanted  map[v1alpha2.Runtime]int
		problem string
	}{
		"":                              {map[v1alpha2.Runtime]int{}, ""},
		"nodejs22=2,python312=1":        {map[v1alpha2.Runtime]int{"nodejs22": 2, "python312": 1}, ""},
		"nodejs22 = 2 ,":                {map[v1alpha2.Runtime]int{"nodejs22": 2}, ""},
		"nodejs22=2,nodejs22=3":         {map[v1alpha2.Runtime]int{"nodejs22": 3}, ""},
		"nodejs22":                      {map[v1alpha2.Runtime]int{}, `"nodejs22" is not runtime=number`},
		"nodejs22=-1,python312=1":       {map[v1alpha2.Runtime]int{"python312": 1}, `"nodejs22=-1" is not runtime=number`},
		"nodejs22=99999999999999999999": {map[v1alpha2.Runtime]int{}, "is not runtime=number"},
		"ruby=1":                        {map[v1alpha2.Runtime]int{}, "there is no runtime ruby"},
		"go126=1":                       {map[v1alpha2.Runtime]int{}, "go126 is compiled"},
		"nodejs24=1":                    {map[v1alpha2.Runtime]int{}, "the installation has no image of nodejs24"},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			wanted, err := ParseStandIns(text, known)
			require.Equal(t, tc.wanted, wanted)
			if tc.problem == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.problem)
			require.ErrorContains(t, err, "annotation rouse.run/stand-ins")
		})
	}
}
