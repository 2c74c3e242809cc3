package v1alpha2_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

func TestManifestsOfKymaAreAccepted(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	for _, file := range []string{"inline.yaml", "git.yaml", "deprecated.yaml"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			manifest, err := os.ReadFile(filepath.Join("testdata", file))
			require.NoError(t, err)
			object := envtest.Object(t, string(manifest))
			object.SetNamespace(namespace)

			stored, err := create(t, object)

			require.NoError(t, err)
			want, _, _ := unstructured.NestedMap(object.Object, "spec")
			got, _, _ := unstructured.NestedMap(stored.Object, "spec")
			if _, given := want["replicas"]; !given {
				want["replicas"] = int64(1)
			}
			require.Equal(t, want, got, "no field may be lost or added")

			typed := &v1alpha2.Function{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(stored.Object, typed, true))
			back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
			require.NoError(t, err)
			again, err := create(t, &unstructured.Unstructured{Object: withoutServerFields(back)})
			require.NoError(t, err, "the encoded Go types must be accepted too")
			require.Equal(t, typed.Name, again.GetName())
		})
	}
}

// withoutServerFields removes the server's fields, so that the object can be created again.
func withoutServerFields(object map[string]any) map[string]any {
	metadata := object["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		delete(metadata, field)
	}
	return object
}

func TestReplicasDefaultToOne(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	tests := map[string]struct {
		fields string
		want   int64
	}{
		"without replicas":  {`{}`, 1},
		"with null":         {`replicas: null`, 1},
		"zero is kept":      {`replicas: 0`, 0},
		"with scale config": {`scaleConfig: {minReplicas: 0, maxReplicas: 3}`, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, err := create(t, function(t, namespace, tc.fields))
			require.NoError(t, err)
			replicas, _, err := unstructured.NestedInt64(stored.Object, "spec", "replicas")
			require.NoError(t, err)
			require.Equal(t, tc.want, replicas)
		})
	}
}

func TestUnknownFieldsArePruned(t *testing.T) {
	t.Parallel()
	stored, err := create(t, function(t, cluster.Environment(t).Namespace(t), `
minReplicas: 1
source: {inline: {source: x, handler: y}}
resourceConfiguration: {function: {profile: S, preset: M}}
`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"runtime":               "nodejs22",
		"replicas":              int64(1),
		"source":                map[string]any{"inline": map[string]any{"source": "x"}},
		"resourceConfiguration": map[string]any{"function": map[string]any{"profile": "S"}},
	}, stored.Object["spec"])
}

func TestStatusIsASubresource(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	fn := &v1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Name: "greet", Namespace: env.Namespace(t)},
		Spec: v1alpha2.FunctionSpec{
			Runtime: v1alpha2.RuntimeNodeJS24,
			Source:  v1alpha2.Source{Inline: &v1alpha2.InlineSource{Source: "x"}},
		},
		Status: v1alpha2.FunctionStatus{RuntimeImage: "ignored"},
	}
	require.NoError(t, env.Client.Create(t.Context(), fn))
	require.Equal(t, v1alpha2.FunctionStatus{ObservedGeneration: -1}, fn.Status, "creating must not write the status")
	gitops.RequireInProgress(t, fn)

	want := v1alpha2.FunctionStatus{
		ObservedGeneration: 1,
		Conditions: []metav1.Condition{{
			Type: v1alpha2.ConditionRunning, Status: metav1.ConditionTrue, Reason: v1alpha2.ReasonDeploymentReady,
			Message: "Deployment greet is ready", LastTransitionTime: metav1.Now().Rfc3339Copy(),
		}},
		Runtime:                  v1alpha2.RuntimeNodeJS24,
		RuntimeImage:             "example.com/nodejs24:1",
		Replicas:                 2,
		PodSelector:              "a=b",
		FunctionResourceProfile:  "L",
		ContainerSecurityContext: &corev1.SecurityContext{RunAsNonRoot: new(true)},
		PodSecurityContext:       &corev1.PodSecurityContext{FSGroup: ptr.To[int64](1000)},
		FunctionAnnotations:      map[string]string{"a": "b"},
		GitRepository:            &v1alpha2.GitRepositoryStatus{URL: "u", BaseDir: "/", Reference: "main", Commit: "c"},
		Commit:                   "c",
		BaseDir:                  "/",
		Reference:                "main",
	}
	fn.Status = *want.DeepCopy()
	fn.Spec.Replicas = ptr.To[int32](7)
	require.NoError(t, env.Client.Status().Update(t.Context(), fn))
	require.Equal(t, int32(1), *fn.Spec.Replicas, "the status must not write the spec")

	stored := &v1alpha2.Function{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(fn), stored))
	require.Empty(t, cmp.Diff(want, stored.Status))
}

func TestScaleSubresource(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	object := function(t, env.Namespace(t), `replicas: 3`)
	require.NoError(t, env.Client.Create(t.Context(), object))
	fn := &v1alpha2.Function{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(object), fn))
	fn.Status.Replicas, fn.Status.PodSelector = 2, "app=greet"
	require.NoError(t, env.Client.Status().Update(t.Context(), fn))

	scale := &autoscalingv1.Scale{}
	require.NoError(t, env.Client.SubResource("scale").Get(t.Context(), fn, scale))
	require.Equal(t, int32(3), scale.Spec.Replicas)
	require.Equal(t, autoscalingv1.ScaleStatus{Replicas: 2, Selector: "app=greet"}, scale.Status)

	scale.Spec.Replicas = 0
	require.NoError(t, env.Client.SubResource("scale").Update(t.Context(), fn, client.WithSubResourceBody(scale)))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(fn), fn))
	require.Equal(t, int32(0), *fn.Spec.Replicas)

	scale.Spec.Replicas, scale.ResourceVersion = -1, ""
	err := env.Client.SubResource("scale").Update(t.Context(), fn, client.WithSubResourceBody(scale))
	require.ErrorContains(t, err, "spec.replicas")
}

func TestPrinterColumns(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	object := function(t, env.Namespace(t), `runtime: python312`)
	require.NoError(t, env.Client.Create(t.Context(), object))
	fn := &v1alpha2.Function{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(object), fn))
	fn.Status.Conditions = []metav1.Condition{
		{Type: v1alpha2.ConditionRunning, Status: "Unknown", Reason: v1alpha2.ReasonDeploymentWaiting, LastTransitionTime: metav1.Now()},
		{Type: v1alpha2.ConditionBuildReady, Status: "False", Reason: v1alpha2.ReasonJobFailed, LastTransitionTime: metav1.Now()},
		{Type: v1alpha2.ConditionConfigurationReady, Status: "True", Reason: v1alpha2.ReasonSpecValidated, LastTransitionTime: metav1.Now()},
	}
	require.NoError(t, env.Client.Status().Update(t.Context(), fn))

	table := env.Table(t, v1alpha2.GroupVersion.WithResource("functions"), fn.Namespace)

	columns := map[string]string{}
	var names []string
	for _, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
		columns[column.Name] = column.Type
	}
	require.Equal(t, []string{"Name", "Configured", "Built", "Running", "Replicas", "Runtime", "Version", "Age"}, names)
	require.Equal(t, "integer", columns["Version"])
	require.Len(t, table.Rows, 1)
	require.Equal(t, []any{fn.Name, "True", "False", "Unknown", float64(0), "python312", float64(1)}, table.Rows[0].Cells[:7], "it sleeps")
}

func TestNamesOfTheResource(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)

	resource := env.Resource(t, v1alpha2.GroupVersion.WithResource("functions"))
	require.Equal(t, "Function", resource.Kind)
	require.Equal(t, "function", resource.SingularName)
	require.Equal(t, []string{"fn", "fns"}, resource.ShortNames)
	require.Equal(t, []string{"all"}, resource.Categories)
	require.True(t, resource.Namespaced)
	require.Equal(t, "Scale", env.Resource(t, v1alpha2.GroupVersion.WithResource("functions/scale")).Kind)
	require.Equal(t, "Function", env.Resource(t, v1alpha2.GroupVersion.WithResource("functions/status")).Kind)
}

func TestFunctionIsAccepted(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	tests := map[string]string{
		"inline source":                             `{}`,
		"inline source with dependencies":           `source: {inline: {source: x, dependencies: '{"dependencies": {"lodash": "4"}}'}}`,
		"runtime nodejs20":                          `runtime: nodejs20`,
		"runtime nodejs22":                          `runtime: nodejs22`,
		"runtime nodejs24":                          `runtime: nodejs24`,
		"runtime nodejs26":                          `runtime: nodejs26`,
		"runtime python312":                         `runtime: python312`,
		"runtime python314":                         `runtime: python314`,
		"another image":                             `runtimeImageOverride: example.com/runtime:1`,
		"Git source":                                `source: {gitRepository: {url: 'https://example.com/r.git', baseDir: /, reference: main}}`,
		"Git source with a password":                `source: {gitRepository: {url: u, baseDir: /, reference: main, auth: {type: basic, secretName: s}}}`,
		"Git source with a key":                     `source: {gitRepository: {url: u, baseDir: /, reference: main, auth: {type: key, secretName: s}}}`,
		"environment variables":                     `env: [{name: A, value: b}, {name: C, valueFrom: {secretKeyRef: {name: s, key: k}}}]`,
		"a name of an environment variable twice":   `env: [{name: A, value: b}, {name: A, value: c}]`,
		"a name that only begins like a reserved":   `env: [{name: FUNC_RUNTIME_2, value: b}, {name: func_runtime, value: c}]`,
		"environment variables that may be changed": `env: [{name: FUNC_NAME, value: b}, {name: PUBLISHER_PROXY_ADDRESS, value: c}]`,
		"profile XS":                                `resourceConfiguration: {function: {profile: XS}}`,
		"profile S":                                 `resourceConfiguration: {function: {profile: S}}`,
		"profile M":                                 `resourceConfiguration: {function: {profile: M}}`,
		"profile L":                                 `resourceConfiguration: {function: {profile: L}}`,
		"profile XL":                                `resourceConfiguration: {function: {profile: XL}}`,
		"resources":                                 `resourceConfiguration: {function: {resources: {requests: {cpu: 50m}, limits: {cpu: 1, memory: 64Mi}}}}`,
		"empty resources":                           `resourceConfiguration: {function: {resources: {}}}`,
		"an empty resource configuration":           `resourceConfiguration: {}`,
		"deprecated build profile local-dev":        `resourceConfiguration: {build: {profile: local-dev}}`,
		"deprecated build profile slow":             `resourceConfiguration: {build: {profile: slow}}`,
		"deprecated build profile normal":           `resourceConfiguration: {build: {profile: normal}}`,
		"deprecated build profile fast":             `resourceConfiguration: {build: {profile: fast}}`,
		"deprecated build resources":                `resourceConfiguration: {build: {resources: {limits: {cpu: 1}}}, function: {profile: S}}`,
		"scaling from zero":                         `scaleConfig: {minReplicas: 0, maxReplicas: 1}`,
		"scaling within bounds":                     `scaleConfig: {minReplicas: 2, maxReplicas: 5}`,
		"scaling with equal bounds":                 `scaleConfig: {minReplicas: 3, maxReplicas: 3}`,
		"no replicas":                               `replicas: 0`,
		"many replicas":                             `replicas: 100`,
		"an empty deprecated template":              `template: {}`,
		"Secrets as files":                          `secretMounts: [{secretName: a, mountPath: /a}, {secretName: b, mountPath: /b}]`,
		"a Secret name of 253 characters":           `secretMounts: [{secretName: ` + strings.Repeat("a", 253) + `, mountPath: /a}]`,
		"labels":                                    `labels: {app: shop, example.com/team: orders}`,
		"a label key of 63 characters":              `labels: {` + strings.Repeat("a", 63) + `: b}`,
		"a label value of 64 characters":            `labels: {a: ` + strings.Repeat("b", 64) + `}`,
		"annotations":                               `annotations: {sidecar.istio.io/inject: "false"}`,
		"an annotation key of 64 characters":        `annotations: {` + strings.Repeat("a", 64) + `: b}`,
		"an annotation key that only looks alike":   `annotations: {proxy.istio.io/config2: a, x.serverless.kyma-project.io/y: b}`,
		"security contexts":                         `{podSecurityContext: {runAsUser: 1000}, containerSecurityContext: {readOnlyRootFilesystem: true}}`,
	}
	for name, fields := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, function(t, namespace, fields))
			require.NoError(t, err)
		})
	}
}

const (
	sourceMessage    = "Invalid value: Use GitRepository or Inline source"
	envMessage       = "Invalid value: Following envs are reserved and cannot be used: ['FUNC_RUNTIME','FUNC_HANDLER','FUNC_PORT','FUNC_HANDLER_SOURCE','FUNC_HANDLER_DEPENDENCIES','MOD_NAME','NODE_PATH','PYTHONPATH']"
	resourcesMessage = "Invalid value: Use profile or resources"
	templateMessage  = "Invalid value: Not supported: Use spec.labels and spec.annotations to label and/or annotate Function's Pods."
)

func TestFunctionIsRefused(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	tests := map[string]struct{ fields, field, message string }{
		"no runtime":         {`runtime: null`, "spec.runtime", "Required value"},
		"an empty runtime":   {`runtime: ""`, "spec.runtime", `Unsupported value: "": supported values: "nodejs20", "nodejs22", "nodejs24", "nodejs26", "python312", "python314", "go126"`},
		"an unknown runtime": {`runtime: nodejs18`, "spec.runtime", `Unsupported value: "nodejs18": supported values: "nodejs20", "nodejs22", "nodejs24", "nodejs26", "python312", "python314", "go126"`},

		"no source":              {`source: null`, "spec.source", "Required value"},
		"an empty source":        {`source: {}`, "spec.source", sourceMessage},
		"both sources":           {`source: {inline: {source: x}, gitRepository: {url: u, baseDir: /, reference: main}}`, "spec.source", sourceMessage},
		"no inline code":         {`source: {inline: {}}`, "spec.source.inline.source", "Required value"},
		"empty inline code":      {`source: {inline: {source: ""}}`, "spec.source.inline.source", "should be at least 1 chars long"},
		"Git without URL":        {`source: {gitRepository: {baseDir: /, reference: main}}`, "spec.source.gitRepository.url", "Required value"},
		"Git without baseDir":    {`source: {gitRepository: {url: u, reference: main}}`, "spec.source.gitRepository", "Invalid value: BaseDir is required and cannot be empty"},
		"Git with blank baseDir": {`source: {gitRepository: {url: u, reference: main, baseDir: "  "}}`, "spec.source.gitRepository", "Invalid value: BaseDir is required and cannot be empty"},
		"Git without reference":  {`source: {gitRepository: {url: u, baseDir: /}}`, "spec.source.gitRepository", "Invalid value: Reference is required and cannot be empty"},
		"Git, blank reference":   {`source: {gitRepository: {url: u, baseDir: /, reference: "\t"}}`, "spec.source.gitRepository", "Invalid value: Reference is required and cannot be empty"},
		"Git, no auth type":      {`source: {gitRepository: {url: u, baseDir: /, reference: m, auth: {secretName: s}}}`, "spec.source.gitRepository.auth.type", "Required value"},
		"Git, unknown auth type": {`source: {gitRepository: {url: u, baseDir: /, reference: m, auth: {type: token, secretName: s}}}`, "spec.source.gitRepository.auth.type", `Unsupported value: "token": supported values: "basic", "key"`},
		"Git, no auth Secret":    {`source: {gitRepository: {url: u, baseDir: /, reference: m, auth: {type: key}}}`, "spec.source.gitRepository.auth.secretName", "Required value"},
		"Git, blank auth Secret": {`source: {gitRepository: {url: u, baseDir: /, reference: m, auth: {type: key, secretName: " "}}}`, "spec.source.gitRepository.auth.secretName", "SecretName is required and cannot be empty"},

		"env without a name":            {`env: [{value: a}]`, "spec.env[0].name", "Required value"},
		"env FUNC_RUNTIME":              {`env: [{name: A}, {name: FUNC_RUNTIME}]`, "spec.env", envMessage},
		"env FUNC_HANDLER":              {`env: [{name: FUNC_HANDLER}]`, "spec.env", envMessage},
		"env FUNC_PORT":                 {`env: [{name: FUNC_PORT}]`, "spec.env", envMessage},
		"env FUNC_HANDLER_SOURCE":       {`env: [{name: FUNC_HANDLER_SOURCE}]`, "spec.env", envMessage},
		"env FUNC_HANDLER_DEPENDENCIES": {`env: [{name: FUNC_HANDLER_DEPENDENCIES}]`, "spec.env", envMessage},
		"env MOD_NAME":                  {`env: [{name: MOD_NAME}]`, "spec.env", envMessage},
		"env NODE_PATH":                 {`env: [{name: NODE_PATH}]`, "spec.env", envMessage},
		"env PYTHONPATH":                {`env: [{name: PYTHONPATH}]`, "spec.env", envMessage},

		"neither profile nor resources": {`resourceConfiguration: {function: {}}`, "spec.resourceConfiguration.function", resourcesMessage},
		"profile and resources":         {`resourceConfiguration: {function: {profile: S, resources: {limits: {cpu: 1}}}}`, "spec.resourceConfiguration.function", resourcesMessage},
		"an unknown profile":            {`resourceConfiguration: {function: {profile: XXL}}`, "spec.resourceConfiguration.function", "Invalid value: Invalid profile, please use one of: ['XS','S','M','L','XL']"},
		"a build profile for a pod":     {`resourceConfiguration: {function: {profile: fast}}`, "spec.resourceConfiguration.function", "Invalid value: Invalid profile, please use one of: ['XS','S','M','L','XL']"},
		"an empty build":                {`resourceConfiguration: {build: {}}`, "spec.resourceConfiguration.build", resourcesMessage},
		"build profile and resources":   {`resourceConfiguration: {build: {profile: slow, resources: {}}}`, "spec.resourceConfiguration.build", resourcesMessage},
		"an unknown build profile":      {`resourceConfiguration: {build: {profile: XS}}`, "spec.resourceConfiguration.build", "Invalid value: Invalid profile, please use one of: ['local-dev','slow','normal','fast']"},

		"scaling without minimum":     {`scaleConfig: {maxReplicas: 1}`, "spec.scaleConfig.minReplicas", "Required value"},
		"scaling without maximum":     {`scaleConfig: {minReplicas: 1}`, "spec.scaleConfig.maxReplicas", "Required value"},
		"scaling from below zero":     {`scaleConfig: {minReplicas: -1, maxReplicas: 1}`, "spec.scaleConfig.minReplicas", "should be greater than or equal to 0"},
		"scaling to zero at most":     {`scaleConfig: {minReplicas: 0, maxReplicas: 0}`, "spec.scaleConfig.maxReplicas", "should be greater than or equal to 1"},
		"scaling with crossed bounds": {`scaleConfig: {minReplicas: 3, maxReplicas: 2}`, "spec.scaleConfig", "Invalid value: minReplicas should be less than or equal maxReplicas"},

		"template with labels":      {`template: {labels: {a: b}}`, "spec.template", templateMessage},
		"template with annotations": {`template: {annotations: {a: b}}`, "spec.template", templateMessage},

		"a mount without a Secret":      {`secretMounts: [{mountPath: /a}]`, "spec.secretMounts[0].secretName", "Required value"},
		"a mount of an empty name":      {`secretMounts: [{secretName: "", mountPath: /a}]`, "spec.secretMounts[0].secretName", "should be at least 1 chars long"},
		"a mount of a very long name":   {`secretMounts: [{secretName: ` + strings.Repeat("a", 254) + `, mountPath: /a}]`, "spec.secretMounts[0].secretName", "may not be more than 253 bytes"},
		"a mount without a path":        {`secretMounts: [{secretName: a}]`, "spec.secretMounts[0].mountPath", "Required value"},
		"a mount at an empty path":      {`secretMounts: [{secretName: a, mountPath: ""}]`, "spec.secretMounts[0].mountPath", "should be at least 1 chars long"},
		"a reserved label":              {`labels: {serverless.kyma-project.io/uuid: a}`, "spec.labels", "Invalid value: Labels has key starting with serverless.kyma-project.io/ which is not allowed"},
		"a label key of 64 characters":  {`labels: {` + strings.Repeat("a", 64) + `: b}`, "spec.labels", "Invalid value: Label value cannot be longer than 63"},
		"a reserved annotation":         {`annotations: {serverless.kyma-project.io/a: b}`, "spec.annotations", "Invalid value: Annotations has key starting with serverless.kyma-project.io/ which is not allowed"},
		"the annotation of Istio's own": {`annotations: {proxy.istio.io/config: "{}"}`, "spec.annotations", "Invalid value: Annotations has key proxy.istio.io/config which is not allowed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, function(t, namespace, tc.fields))
			causes := envtest.Causes(t, err)
			require.Len(t, causes, 1)
			require.True(t, strings.HasPrefix(causes[0], tc.field+": "), causes[0])
			require.True(t, strings.HasSuffix(causes[0], tc.message), causes[0])
		})
	}
}

func TestFunctionWithoutSpecIsRefused(t *testing.T) {
	t.Parallel()
	object := function(t, cluster.Environment(t).Namespace(t), `{}`)
	delete(object.Object, "spec")
	_, err := create(t, object)
	require.Equal(t, []string{"spec: Required value"}, envtest.Causes(t, err))
}

// Both the schema and the scale subresource define this field.
func TestNegativeReplicasAreRefused(t *testing.T) {
	t.Parallel()
	_, err := create(t, function(t, cluster.Environment(t).Namespace(t), `replicas: -1`))
	require.Contains(t, envtest.Causes(t, err),
		"spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0")
}

// The rules live in the CRD, so only a real kube-apiserver can report whether
// they say what is meant.
var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// function is a small valid Function. The fields of the YAML replace those of
// its spec; a null takes one away.
func function(t *testing.T, namespace, fields string) *unstructured.Unstructured {
	t.Helper()
	spec := map[string]any{
		"runtime": "nodejs22",
		"source":  map[string]any{"inline": map[string]any{"source": "module.exports = { main: () => 'hello' }"}},
	}
	var changes map[string]any
	require.NoError(t, yaml.UnmarshalStrict([]byte(fields), &changes))
	for key, value := range changes {
		if value == nil {
			delete(spec, key)
			continue
		}
		spec[key] = value
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serverless.kyma-project.io/v1alpha2",
		"kind":       "Function",
		"metadata":   map[string]any{"generateName": "fn-", "namespace": namespace},
		"spec":       spec,
	}}
}

// create creates the object with dry run, and returns what the
// kube-apiserver would have stored.
func create(t *testing.T, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	stored := object.DeepCopy()
	err := cluster.Environment(t).Client.Create(t.Context(), stored, client.DryRunAll)
	return stored, err
}
