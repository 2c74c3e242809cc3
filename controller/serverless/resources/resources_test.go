package resources

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
)

// installationText is the chart's description with all fields.
const installationText = `
namespaces: [kyma-system]
binding: rouse-functions
roles: {functions: rouse-functions, leader: rouse-functions-leader}
defaults: {publisherAddress: "http://rouse-eventbridge.rouse-system.svc.cluster.local/publish", logLevel: info}
controller:
  image: ghcr.io/rouse-run/rouse:1
  imagePullPolicy: IfNotPresent
  imagePullSecrets: [registry]
  replicas: 1
  args: ["--runtime-image=nodejs22=ghcr.io/rouse-run/rouse-runtime-nodejs22:1", "--metrics-address=:9090"]
  env: [{name: GOMEMLIMIT, value: "241591910"}]
  resources: {requests: {cpu: 20m, memory: 64Mi}, limits: {memory: 256Mi}}
  caBundle: |
    -----BEGIN CERTIFICATE-----
  priorityClassName: system-cluster-critical
  nodeSelector: {pool: system}
  tolerations: [{operator: Exists}]
  podAnnotations: {example.com/a: b}
networkPolicy:
  ingress: [{ports: [{port: metrics}], from: [{namespaceSelector: {}}]}]
  egress: [{ports: [{port: 53, protocol: UDP}]}, {ports: [{protocol: TCP}]}]
`

func installation(t *testing.T) *Installation {
	t.Helper()
	read, err := ParseInstallation([]byte(installationText))
	require.NoError(t, err)
	return read
}

// small is an installation with only the required fields.
func small() *Installation {
	return &Installation{
		Namespaces: []string{"*"}, Binding: "rouse-functions", Roles: Roles{Functions: "rouse-functions", Leader: "rouse-functions-leader"},
		Defaults:   Defaults{PublisherAddress: "http://bridge/publish"},
		Controller: Controller{Image: "rouse:1", Replicas: 1, Args: []string{"--metrics-address=:9090"}},
	}
}

func owner() *operatorv1alpha1.Serverless {
	return &operatorv1alpha1.Serverless{ObjectMeta: metav1.ObjectMeta{Namespace: "kyma-system", Name: "default", UID: "6f1c"}}
}

// requireGolden compares objects with testdata/<name>.yaml. With UPDATE_GOLDEN=1 it writes the file instead.
func requireGolden(t *testing.T, name string, objects []*unstructured.Unstructured) {
	t.Helper()
	var text strings.Builder
	for _, object := range objects {
		part, err := yaml.Marshal(object.Object)
		require.NoError(t, err)
		text.WriteString("---\n" + string(part))
	}
	path := filepath.Join("testdata", name+".yaml")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text.String(), "run the test with UPDATE_GOLDEN=1 if the change is meant")
}

func TestPartsMatchTheGoldenManifests(t *testing.T) {
	t.Parallel()
	full := operatorv1alpha1.ServerlessSpec{
		Tracing: &operatorv1alpha1.Endpoint{Endpoint: "http://collector:4318/v1/traces"}, FunctionRequeueDuration: "2m",
		HealthzLivenessTimeout: "1500ms", DefaultRuntimePodPreset: "M", LogLevel: "fatal", LogFormat: "console",
	}
	for name, tc := range map[string]struct {
		installation *Installation
		spec         operatorv1alpha1.ServerlessSpec
	}{
		"smallest": {small(), operatorv1alpha1.ServerlessSpec{}},
		"largest":  {installation(t), full},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings, err := Resolve(&tc.spec, tc.installation, Found{})
			require.NoError(t, err)
			parts, err := Build(owner(), tc.installation, &settings)
			require.NoError(t, err)
			requireGolden(t, name, parts)
		})
	}
}

func TestThePodsCarryKymasAnnotations(t *testing.T) {
	t.Parallel()
	parts, err := Build(owner(), small(), &Settings{LogFormat: "console"})
	require.NoError(t, err)
	deployment := parts[len(parts)-1]
	require.Equal(t, "Deployment", deployment.GetKind())
	annotations, _, err := unstructured.NestedStringMap(deployment.Object, "spec", "template", "metadata", "annotations")
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"kubectl.kubernetes.io/default-container":    "manager",
		"sidecar.istio.io/inject":                    "false",
		"rt-cfg.kyma-project.io/add-img-pull-secret": "true",
		"rt-cfg.kyma-project.io/alter-img-registry":  "true",
		"serverless.kyma-project.io/log-format":      "console",
	}, annotations)
}

func TestEveryBuiltPartIsRemoved(t *testing.T) {
	t.Parallel()
	from := installation(t)
	settings, err := Resolve(&operatorv1alpha1.ServerlessSpec{}, from, Found{})
	require.NoError(t, err)
	parts, err := Build(owner(), from, &settings)
	require.NoError(t, err)
	removed := Parts("kyma-system", from)
	require.Len(t, removed, len(parts))
	for _, part := range parts {
		require.True(t, slices.ContainsFunc(removed, func(p Part) bool {
			return p.Kind == part.GroupVersionKind() && p.Key.Name == part.GetName() && p.Key.Namespace == part.GetNamespace()
		}), "%s %s", part.GetKind(), part.GetName())
		require.Equal(t, ManagedBy, part.GetLabels()[LabelManagedBy])
		require.Equal(t, "6f1c", part.GetLabels()[LabelOwner])
	}
	require.Equal(t, KindDeployment, removed[0].Kind, "the Deployment is removed before its permissions")
}

func TestOmittedServerlessValuesAreDefaulted(t *testing.T) {
	t.Parallel()
	const bridge, collector = "http://bridge/publish", "http://telemetry-otlp-traces.kyma-system.svc.cluster.local:4318/v1/traces"
	defaults := func(change func(*Defaults)) *Installation {
		made := small()
		change(&made.Defaults)
		return made
	}
	for name, tc := range map[string]struct {
		spec         operatorv1alpha1.ServerlessSpec
		installation *Installation
		found        Found
		want         Settings
	}{
		"no values": {
			installation: small(), want: Settings{EventingEndpoint: bridge, DefaultPreset: "L", LogLevel: "info", LogFormat: "json"},
		},
		"a small cluster with a collector": {
			installation: small(), found: Found{Small: true, TracingEndpoint: collector},
			want: Settings{EventingEndpoint: bridge, TracingEndpoint: collector, DefaultPreset: "XS", LogLevel: "info", LogFormat: "json"},
		},
		"a cluster that has grown": {
			installation: small(), found: Found{Preset: "XS"},
			want: Settings{EventingEndpoint: bridge, DefaultPreset: "XS", LogLevel: "info", LogFormat: "json"},
		},
		"tracing that is switched off stays off": {
			spec:         operatorv1alpha1.ServerlessSpec{Tracing: &operatorv1alpha1.Endpoint{}},
			installation: defaults(func(d *Defaults) { d.TraceCollectorEndpoint = "http://ours:4318" }), found: Found{TracingEndpoint: collector},
			want: Settings{EventingEndpoint: bridge, DefaultPreset: "L", LogLevel: "info", LogFormat: "json"},
		},
		"the installation comes before the cluster": {
			installation: defaults(func(d *Defaults) {
				d.TraceCollectorEndpoint, d.Profile, d.LogLevel, d.LogFormat = "http://ours:4318", "S", "warn", "console"
			}), found: Found{TracingEndpoint: collector, Small: true},
			want: Settings{EventingEndpoint: bridge, TracingEndpoint: "http://ours:4318", DefaultPreset: "S", LogLevel: "warn", LogFormat: "console"},
		},
		"the Serverless comes before both": {
			spec: operatorv1alpha1.ServerlessSpec{
				Eventing: &operatorv1alpha1.Endpoint{Endpoint: "https://other/publish"}, Tracing: &operatorv1alpha1.Endpoint{Endpoint: "http://mine:4318"},
				FunctionRequeueDuration: "90s", HealthzLivenessTimeout: "5s", DefaultRuntimePodPreset: "XL", LogLevel: "debug", LogFormat: "text",
			},
			installation: defaults(func(d *Defaults) { d.TraceCollectorEndpoint, d.Profile = "http://ours:4318", "S" }),
			want: Settings{
				EventingEndpoint: "https://other/publish", TracingEndpoint: "http://mine:4318", FunctionRequeueDuration: "90s",
				HealthzLivenessTimeout: "5s", DefaultPreset: "XL", LogLevel: "debug", LogFormat: "console",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Resolve(&tc.spec, tc.installation, tc.found)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestInvalidServerlessValuesNameFieldAndRemedy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec operatorv1alpha1.ServerlessSpec
		want string
	}{
		"a publisher that is not a URL": {
			operatorv1alpha1.ServerlessSpec{Eventing: &operatorv1alpha1.Endpoint{Endpoint: "eventbridge"}},
			`spec.eventing.endpoint "eventbridge" is not an http or https URL: use a URL like http://bridge/publish, or leave spec.eventing out`,
		},
		"no publisher": {
			operatorv1alpha1.ServerlessSpec{Eventing: &operatorv1alpha1.Endpoint{}},
			`spec.eventing.endpoint "" is not an http or https URL: use a URL like http://bridge/publish, or leave spec.eventing out`,
		},
		"a password in a URL that all Functions get": {
			operatorv1alpha1.ServerlessSpec{Eventing: &operatorv1alpha1.Endpoint{Endpoint: "http://me:secret@bridge/publish"}},
			`spec.eventing.endpoint contains a user name or password, which everyone could read: use a URL like http://bridge/publish, or leave spec.eventing out`,
		},
		"a collector of another kind": {
			operatorv1alpha1.ServerlessSpec{Tracing: &operatorv1alpha1.Endpoint{Endpoint: "grpc://collector:4317"}},
			`spec.tracing.endpoint "grpc://collector:4317" is not an http or https URL: use a URL like ` +
				`http://collector.monitoring.svc.cluster.local:4318/v1/traces, or an empty one for no traces`,
		},
		"a URL as long as a page": {
			operatorv1alpha1.ServerlessSpec{Tracing: &operatorv1alpha1.Endpoint{Endpoint: "http://collector/" + strings.Repeat("x", 2048)}},
			`spec.tracing.endpoint has 2065 bytes, at most 2048: use a URL like http://collector.monitoring.svc.cluster.local:4318/v1/traces, ` +
				`or an empty one for no traces`,
		},
		"a duration without a unit": {
			operatorv1alpha1.ServerlessSpec{FunctionRequeueDuration: "300"},
			`spec.functionRequeueDuration "300" is not a duration: use a duration like 5m, or leave it out`,
		},
		"an infinite duration": {
			operatorv1alpha1.ServerlessSpec{FunctionRequeueDuration: "-1s"},
			`spec.functionRequeueDuration "-1s" is not between 10s and 24h0m0s: use a duration like 5m, or leave it out`,
		},
		"a health check without time": {
			operatorv1alpha1.ServerlessSpec{HealthzLivenessTimeout: "1ms"},
			`spec.healthzLivenessTimeout "1ms" is not between 1s and 10m0s: use a duration like 10s, or leave it out`,
		},
		"a preset of builds": {
			operatorv1alpha1.ServerlessSpec{DefaultRuntimePodPreset: "fast"},
			`spec.defaultRuntimePodPreset "fast" is not known: use one of XS, S, M, L, XL`,
		},
		"a level and a format at once, both wrong": {
			operatorv1alpha1.ServerlessSpec{LogLevel: "loud", LogFormat: "xml"},
			`spec.logLevel "loud" is not known: use one of debug, info, warn, error, fatal. ` +
				`spec.logFormat "xml" is not known: use one of json, console`,
		},
		"a level of a megabyte": {
			operatorv1alpha1.ServerlessSpec{LogLevel: strings.Repeat("a", 1<<20)},
			`spec.logLevel "` + strings.Repeat("a", 64) + `…" is not known: use one of debug, info, warn, error, fatal`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Resolve(&tc.spec, small(), Found{})
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestNoTextOfAServerlessChangesTheShapeOfTheFiles(t *testing.T) {
	t.Parallel()
	hostile := "http://bridge/publish?a=\"\nlogLevel: debug\n# '{}\\"
	spec := operatorv1alpha1.ServerlessSpec{Eventing: &operatorv1alpha1.Endpoint{Endpoint: hostile}}
	settings, _ := Resolve(&spec, small(), Found{}) // whether it is refused or not
	settings.EventingEndpoint = hostile
	text, err := functionConfig(map[string]any{"gitCheckInterval": "30s"}, &settings)
	require.NoError(t, err)
	var read map[string]any
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &read))
	require.Equal(t, hostile, read["functionPublisherProxyAddress"])
	require.Equal(t, "30s", read["gitCheckInterval"], "what a Serverless does not say is the installation's")
	require.NotContains(t, read, "logLevel")
}

func TestDescriptionsOfAnInstallationAreReadStrictlyAndWithinBounds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"a misspelt field": {installationText + "networkPolicys: {}", `unknown field "networkPolicys"`},
		"nothing":          {"", "has no binding"},
		"no text at all":   {"[", "read the description of the installation"},
		"a megabyte":       {strings.Repeat("#", 1<<20), "at most 262144 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseInstallation([]byte(tc.text))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestTheDeploymentIsKymasByNameAndSelector(t *testing.T) {
	t.Parallel()
	settings, err := Resolve(&operatorv1alpha1.ServerlessSpec{}, small(), Found{})
	require.NoError(t, err)
	parts, err := Build(owner(), small(), &settings)
	require.NoError(t, err)
	deployment := parts[len(parts)-1]
	require.Equal(t, "serverless-ctrl-mngr", deployment.GetName())
	selector, _, err := unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"app": "serverless", "app.kubernetes.io/name": "serverless", "app.kubernetes.io/instance": "serverless",
	}, selector)
}
