package resources

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
)

// requireGolden compares object with testdata/<name>.yaml. With UPDATE_GOLDEN=1
// it writes the file instead.
func requireGolden(t *testing.T, name string, object any) {
	t.Helper()
	got, err := yaml.Marshal(object)
	require.NoError(t, err)
	path := filepath.Join("testdata", name+".yaml")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run the test with UPDATE_GOLDEN=1 if the change is meant")
}

func settings() *Settings {
	return &Settings{
		Images: map[string]string{
			"nodejs22":  "registry.example.com/rouse-runtime-nodejs22:1",
			"python312": "registry.example.com/rouse-runtime-python312:1",
		},
		PublisherAddress:       "http://rouse-eventbridge.rouse-system.svc.cluster.local/publish",
		TraceCollectorEndpoint: "http://traces.example.com:4318/v1/traces",
		DefaultProfile:         "L",
		Scaling: Scaling{
			ScalerAddress:          "rouse-scaler.rouse-system.svc.cluster.local:9000",
			InitialCooldownSeconds: 60,
			ScaleDownSeconds:       30,
			Defaults:               workload.Tuning{PollingSeconds: 10, CooldownSeconds: 60},
		},
		Build: BuildSettings{Builder: "registry.example.com/rouse:1", Profile: "normal", DeadlineSeconds: 900, VolumeSize: resource.MustParse("4Gi")},
	}
}

// kyma sets an image of Kyma's contract.
func kyma(fn *v1alpha2.Function) { fn.Spec.RuntimeImageOverride = "registry.example.com/kyma-like:2" }

// code is the code of a Function without a build.
func code(fn *v1alpha2.Function, source string) Code {
	return Code{Image: Image(fn, settings()), Source: source, Runtime: fn.Spec.Runtime}
}

type option func(*v1alpha2.Function)

func function(options ...option) *v1alpha2.Function {
	fn := &v1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Name: "price", Namespace: "shop", UID: "3c5a1d2e-0000-4000-8000-000000000001"},
		Spec: v1alpha2.FunctionSpec{
			Runtime: v1alpha2.RuntimeNodeJS22,
			Source:  v1alpha2.Source{Inline: &v1alpha2.InlineSource{Source: "module.exports = { main: () => 'ok' }"}},
		},
	}
	for _, apply := range options {
		apply(fn)
	}
	return fn
}

func named(name string) option { return func(fn *v1alpha2.Function) { fn.Name = name } }

func python(fn *v1alpha2.Function) { fn.Spec.Runtime = v1alpha2.RuntimePython312 }

func scaled(low, high int32) option {
	return func(fn *v1alpha2.Function) {
		fn.Spec.ScaleConfig = &v1alpha2.ScaleConfig{MinReplicas: &low, MaxReplicas: &high}
	}
}

func everything(fn *v1alpha2.Function) {
	fn.Labels = map[string]string{"team": "sales", v1alpha2.LabelManagedBy: "somebody-else"}
	fn.Spec.RuntimeImageOverride = "registry.example.com/own:2"
	fn.Annotations = map[string]string{v1alpha2.AnnotationRuntimeContract: v1alpha2.RuntimeContractRouse}
	fn.Spec.Labels = map[string]string{"tier": "backend", v1alpha2.LabelAppName: "ignored"}
	fn.Spec.Annotations = map[string]string{"note": "hello", "sidecar.istio.io/nativeSidecar": "false"}
	fn.Spec.Env = []corev1.EnvVar{
		{Name: "FUNC_NAME", Value: "mine"},
		{Name: "EMPTY"},
		{Name: "TWICE", Value: "first"},
		{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "shop"}, Key: "token", Optional: new(true),
		}}},
		{Name: "TWICE", Value: "second"},
	}
	fn.Spec.ResourceConfiguration = &v1alpha2.ResourceConfiguration{Function: &v1alpha2.ResourceRequirements{
		Resources: &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("0.5Gi")},
		},
	}}
	fn.Spec.SecretMounts = []v1alpha2.SecretMount{
		{SecretName: "certificates", MountPath: "/certificates"},
		{SecretName: "with.dots", MountPath: "/dots"},
	}
	fn.Spec.ContainerSecurityContext = &corev1.SecurityContext{
		ReadOnlyRootFilesystem: new(true),
		Capabilities:           &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}},
	}
	fn.Spec.PodSecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](4711)}
}

func TestDeploymentsAreAsInTheGoldenFiles(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fn            *v1alpha2.Function
		replicas      *int32
		configuration string
		pullSecret    string
		prepared      Prepared
		inline        *workload.Inline
		audience      string
	}{
		"deployment-nodejs":     {fn: function(), replicas: ptr.To[int32](1)},
		"deployment-python":     {fn: function(python), replicas: ptr.To[int32](3)},
		"deployment-scaled":     {fn: function(scaled(0, 5))},
		"deployment-everything": {fn: function(everything), replicas: ptr.To[int32](0), configuration: "0123456789abcdef"},
		"deployment-built":      {fn: function(), replicas: ptr.To[int32](1), pullSecret: "rouse-registry-price"},
		"deployment-token":      {fn: function(python), replicas: ptr.To[int32](1), audience: "rouse-eventbridge"},
		"deployment-kyma-nodejs": {
			fn: function(kyma), replicas: ptr.To[int32](1), inline: &workload.Inline{
				Source: "module.exports = { main: () => `$$ $(FUNC_NAME) \\n` }", Dependencies: `{"dependencies":{"left-pad":"1.3.0"}}`,
			},
		},
		"deployment-kyma-python": {
			fn: function(kyma, python), replicas: ptr.To[int32](1),
			inline: &workload.Inline{Source: "def main(event, context): return 'ok'"},
		},
		"deployment-kyma-git": {
			fn: function(kyma), replicas: ptr.To[int32](1), prepared: Prepared{Input: "price-prepare-0123456789", GitSecret: "git"},
		},
		"deployment-prepared": {
			fn: function(python), replicas: ptr.To[int32](1), prepared: Prepared{Input: "price-prepare-0123456789", GitSecret: "git"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wanted := Workload{
				Code: code(tc.fn, "c291cmNl"), Replicas: tc.replicas, Configuration: tc.configuration, PullSecret: tc.pullSecret,
			}
			if wanted.Kyma = FollowsKyma(tc.fn, settings()); wanted.Kyma {
				wanted.Source, wanted.Inline = "", tc.inline
			}
			wanted.Prepared = tc.prepared
			installation := settings()
			installation.PublisherAudience = tc.audience
			deployment, err := Deployment(tc.fn, installation, wanted)
			require.NoError(t, err)
			requireGolden(t, name, deployment)
		})
	}
}

func TestOtherObjectsAreAsInTheGoldenFiles(t *testing.T) {
	t.Parallel()
	scaling := settings().Scaling
	secured := scaling
	secured.ScalerAuthentication = "rouse-scaler"
	woken, tuning := scaling, scaling.Defaults
	woken.HTTPWake, tuning.HTTPWake, tuning.HTTPConcurrency = true, true, 50
	long := named("a-function-whose-name-is-long-enough-for-keda-to-stumble-over")
	tests := map[string]any{
		"service":      service(),
		"hpa":          CPUAutoscaler(function(scaled(0, 5))),
		"hpa-events":   EventAutoscaler(function(scaled(0, 5)), 0, woken, tuning, false),
		"scaledobject": ScaledObject(function(scaled(0, 5)), scaling, tuning, nil, true),
		"scaledobject-triggers": ScaledObject(function(scaled(0, 5)), scaling, tuning, []Trigger{
			{Type: "cpu", MetricType: "Utilization", Metadata: map[string]string{"value": "50"}},
			{
				Type: "prometheus", Name: "queue", UseCachedMetrics: true, Metadata: map[string]string{"query": "up"},
				AuthenticationRef: &TriggerAuthentication{Name: "own", Kind: "TriggerAuthentication"},
			},
		}, true),
		"scaledobject-workload": WorkloadScaledObject(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "orders", Name: "books", UID: "1"}},
			ScaleTarget{Kind: "StatefulSet", Name: "ledger", High: 10}, scaling, tuning, nil, true),
		"scaledobject-http":      ScaledObject(function(scaled(0, 5)), woken, tuning, nil, true),
		"scaledobject-http-kyma": ScaledObject(function(scaled(0, 5)), woken, tuning, nil, false),
		"scaledobject-tls":       ScaledObject(function(scaled(0, 5)), secured, scaling.Defaults, nil, true),
		"scaledobject-long-name": ScaledObject(function(long, scaled(1, 2)), woken, workload.Tuning{PollingSeconds: 300, CooldownSeconds: 5, LagThreshold: 1}, nil, true),
	}
	for name, object := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireGolden(t, name, object)
		})
	}
}

func service() any {
	return Service(function(func(fn *v1alpha2.Function) { fn.Labels = map[string]string{"team": "sales"} }))
}

func TestAServiceCarriesTheDebugAnnotation(t *testing.T) {
	t.Parallel()
	const until = "2026-05-01T12:00:00Z"
	for name, tc := range map[string]struct {
		annotations, want map[string]string
	}{
		"no annotations":      {nil, nil},
		"no other annotation": {map[string]string{"note": "long"}, nil},
		"the time":            {map[string]string{"note": "long", v1alpha2.AnnotationDebugUntil: until}, map[string]string{v1alpha2.AnnotationDebugUntil: until}},
		"an oversized value":  {map[string]string{v1alpha2.AnnotationDebugUntil: strings.Repeat("9", 100_000)}, nil},
		"an empty value":      {map[string]string{v1alpha2.AnnotationDebugUntil: ""}, nil},
	} {
		service := Service(function(func(fn *v1alpha2.Function) { fn.Annotations = tc.annotations }))
		require.Equal(t, tc.want, service.Annotations, name)
	}
}
