package v2_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/gateway/v2alpha1"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

func TestAPIRuleIsAccepted(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	label := strings.Repeat("a", 63)
	tests := map[string]string{
		"a plain APIRule":                      host,
		"a short host":                         `hosts: [price]`,
		"a short host of a character":          `hosts: [a]`,
		"a short host of digits":               `hosts: ["1"]`,
		"short labels":                         `hosts: [a.b.ca]`,
		"the longest label":                    `hosts: [` + label + `.example.com]`,
		"the longest host":                     `hosts: [` + strings.Join([]string{label, label, label, strings.Repeat("b", 59), "com"}, ".") + `]`,
		"a wildcard":                           `hosts: ["*.example.com"]`,
		"no gateway":                           `gateway: null`,
		"two gateways":                         `externalGateway: a/b`,
		"the longest gateway":                  `gateway: ` + label + `/` + label,
		"no service":                           `service: null`,
		"a service without a name":             `service: {name: "", port: 80}`,
		"any key of an origin":                 `corsPolicy: {allowOrigins: [{suffix: a}]}`,
		"an invalid method":                    `corsPolicy: {allowMethods: [FETCH]}`,
		"noAuth beside another kind of access": `rules: [{path: /a, methods: [GET], noAuth: false, jwt: {}}]`,
		"an empty jwt":                         `rules: [{path: /a, methods: [GET], jwt: {}}]`,
		"empty lists":                          `rules: [{path: /a, methods: [GET], jwt: {authentications: [], authorizations: [{requiredScopes: [], audiences: []}]}}]`,
		"the same method twice":                `rules: [{path: /a, methods: [GET, GET], noAuth: true}]`,
		"the minimum and the maximum of times": `timeout: 1, rules: [{path: /a, methods: [GET], noAuth: true, timeout: 3900}]`,
	}
	for _, path := range []string{"/", "/a", "/a/", "//", "/a.b_c~d-e/!$&'()+,;=:@", "/%2F%aB", "/{*}", "/{**}", "/a/{*}/b/{**}", "/{**}/{**}", "/*"} {
		tests["the path "+path] = `rules: [{path: "` + path + `", methods: [GET], noAuth: true}]`
	}
	for name, fields := range tests {
		for _, version := range versions {
			t.Run(name+" of "+version, func(t *testing.T) {
				t.Parallel()
				_, err := create(t, apiRule(t, version, namespace, with(fields)))
				require.NoError(t, err)
			})
		}
	}
}

// with returns a spec with the given fields and the required ones.
func with(fields string) string {
	for _, needed := range []string{host, gateway, service, rules} {
		key, _, _ := strings.Cut(needed, " ")
		if !strings.HasPrefix(fields, key) && !strings.Contains(fields, ", "+key) {
			fields += ", " + needed
		}
	}
	return "{" + fields + "}"
}

func TestAPIRuleIsRefused(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	const (
		noHost    = `Host must be a lowercase RFC 1123 label (must consist of lowercase alphanumeric characters or '-', and must start and end with an lowercase alphanumeric character), a fully qualified domain name, or a wildcard domain name`
		noGateway = `Gateway must be in the namespace/name format`
		oneOf     = `One of the following fields must be set: noAuth, jwt, extAuth`
	)
	label := strings.Repeat("a", 64)
	rule := func(fields string) string { return `rules: [{path: /a, methods: [GET], ` + fields + `}]` }
	tests := map[string]struct{ fields, field, message string }{
		"no hosts":                              {`hosts: null`, "spec.hosts", "Required value"},
		"an empty list of hosts":                {`hosts: []`, "spec.hosts", "should have at least 1 items"},
		"two hosts":                             {`hosts: [a, b]`, "spec.hosts", "must have at most 1 item"},
		"a host of 256 characters":              {`hosts: [` + strings.Repeat("a.", 126) + `aaaa]`, "spec.hosts[0]", "may not be more than 255"},
		"a gateway without namespace":           {`gateway: kyma-gateway`, "spec.gateway", noGateway},
		"a gateway by a Service":                {`gateway: a.b.svc.cluster.local`, "spec.gateway", noGateway},
		"a gateway in capitals":                 {`gateway: A/b`, "spec.gateway", noGateway},
		"a gateway of a long name":              {`gateway: a/` + label, "spec.gateway", noGateway},
		"a long gateway":                        {`gateway: ` + label + `/` + label, "spec.gateway", "may not be more than 127"},
		"an external gateway without namespace": {`gateway: null, externalGateway: a`, "spec.externalGateway", "ExternalGateway must be in the namespace/name format"},
		"a service without a name":              {`service: {port: 80}`, "spec.service.name", "Required value"},
		"a service without a port":              {`service: {name: a}`, "spec.service.port", "Required value"},
		"a port of 0":                           {`service: {name: a, port: 0}`, "spec.service.port", "should be greater than or equal to 1"},
		"a port of 65536":                       {`service: {name: a, port: 65536}`, "spec.service.port", "should be less than or equal to 65535"},
		"a port by its name":                    {`service: {name: a, port: http}`, "spec.service.port", "must be of type integer"},
		"a namespace in capitals":               {`service: {name: a, namespace: A, port: 80}`, "spec.service.namespace", "should match"},
		"a zero timeout":                        {`timeout: 0`, "spec.timeout", "should be greater than or equal to 1"},
		"a time too long":                       {`timeout: 3901`, "spec.timeout", "should be less than or equal to 3900"},
		"a time with a unit":                    {`timeout: 30s`, "spec.timeout", "must be of type integer"},
		"an age of 0":                           {`corsPolicy: {maxAge: 0}`, "spec.corsPolicy.maxAge", "should be greater than or equal to 1"},
		"an origin that is a word":              {`corsPolicy: {allowOrigins: [a]}`, "spec.corsPolicy.allowOrigins[0]", "must be of type object"},
		"no rules":                              {`rules: null`, "spec.rules", "Required value"},
		"an empty list of rules":                {`rules: []`, "spec.rules", "should have at least 1 items"},
		"a rule without a path":                 {`rules: [{methods: [GET], noAuth: true}]`, "spec.rules[0].path", "Required value"},
		"a rule without methods":                {`rules: [{path: /a, noAuth: true}]`, "spec.rules[0].methods", "Required value"},
		"a rule of no methods":                  {`rules: [{path: /a, methods: [], noAuth: true}]`, "spec.rules[0].methods", "should have at least 1 items"},
		"an unknown method":                     {`rules: [{path: /a, methods: [get], noAuth: true}]`, "spec.rules[0].methods[0]", "Unsupported value"},
		"a rule without access":                 {rule(`noAuth: null`), "spec.rules[0]", oneOf},
		"a rule with noAuth of false":           {rule(`noAuth: false`), "spec.rules[0]", oneOf},
		"two kinds of access":                   {rule(`noAuth: true, jwt: {}`), "spec.rules[0]", oneOf},
		"two other kinds of access":             {rule(`jwt: {}, extAuth: {authorizers: [a]}`), "spec.rules[0]", oneOf},
		"a rule's time too long":                {rule(`noAuth: true, timeout: 3901`), "spec.rules[0].timeout", "should be less than or equal to 3900"},
		"no authorizers":                        {rule(`extAuth: {}`), "spec.rules[0].extAuth.authorizers", "Required value"},
		"an empty list of authorizers":          {rule(`extAuth: {authorizers: []}`), "spec.rules[0].extAuth.authorizers", "should have at least 1 items"},
		"no issuer":                             {rule(`jwt: {authentications: [{jwksUri: a}]}`), "spec.rules[0].jwt.authentications[0].issuer", "Required value"},
		"no keys":                               {rule(`jwt: {authentications: [{issuer: a}]}`), "spec.rules[0].jwt.authentications[0].jwksUri", "Required value"},
		"a header without a name":               {rule(`jwt: {authentications: [{issuer: a, jwksUri: b, fromHeaders: [{}]}]}`), "spec.rules[0].jwt.authentications[0].fromHeaders[0].name", "Required value"},
		"a header of a number":                  {rule(`noAuth: true, request: {headers: {a: 1}}`), "spec.rules[0].request.headers.a", "must be of type string"},
	}
	for _, bad := range []string{
		"", "Price", "a.B.com", "a_b", "-a", "a-", "a..com", ".com", "a.", "a.c", "*", "*.com", "*a.example.com", "a.*.com", "a.example.com:80", label, label + ".com",
	} {
		tests["the host "+bad] = struct{ fields, field, message string }{`hosts: ["` + bad + `"]`, "spec.hosts[0]", noHost}
	}
	for _, bad := range []string{"", "a", "/a*", "/a/*", "/*/a", "/{a}", "/a{*}", "/{***}", "/a?b", "/a#b", "/%2", "/a b", "/.*[a]"} {
		tests["the path "+bad] = struct{ fields, field, message string }{
			`rules: [{path: "` + bad + `", methods: [GET], noAuth: true}]`, "spec.rules[0].path", "should match",
		}
	}
	for name, tc := range tests {
		for _, version := range versions {
			t.Run(name+" of "+version, func(t *testing.T) {
				t.Parallel()
				_, err := create(t, apiRule(t, version, namespace, with(tc.fields)))
				causes := envtest.Causes(t, err)
				require.NotEmpty(t, causes)
				require.True(t, strings.HasPrefix(causes[0], tc.field+": "), causes[0])
				require.Contains(t, causes[0], tc.message)
			})
		}
	}
}

func TestSpecIsRequiredOnlyInV2(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	for _, version := range versions {
		object := apiRule(t, version, namespace, "{}")
		_, err := create(t, object)
		require.Error(t, err, "an empty spec of %s", version)
		delete(object.Object, "spec")
		_, err = create(t, object)
		if version == "v2alpha1" {
			require.NoError(t, err)
			continue
		}
		require.Equal(t, []string{"spec: Required value"}, envtest.Causes(t, err))
	}
}

func TestManifestOfKymaIsAccepted(t *testing.T) {
	t.Parallel()
	manifest, err := os.ReadFile("testdata/apirule.yaml")
	require.NoError(t, err)
	for _, version := range versions {
		object := envtest.Object(t, string(manifest))
		object.SetAPIVersion("gateway.kyma-project.io/" + version)
		object.SetNamespace(cluster.Environment(t).Namespace(t))

		stored, err := create(t, object)

		require.NoError(t, err)
		require.Equal(t, object.Object["spec"], stored.Object["spec"], "nothing may be lost or added")
		typed := &v2.APIRule{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(stored.Object, typed, true))
		back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		require.NoError(t, err)
		require.Equal(t, stored.Object["spec"], back["spec"])
	}
}

func TestNoFieldIsDefaultedAndUnknownFieldsArePruned(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	object := apiRule(t, "v2", namespace, with(`host: price, rules: [{path: /a, methods: [GET], noAuth: true, accessStrategies: [], jwt: null}]`))
	stored, err := create(t, object)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"hosts": []any{"price.example.com"}, "gateway": "kyma-system/kyma-gateway",
		"service": map[string]any{"name": "price", "port": int64(80)},
		"rules":   []any{map[string]any{"path": "/a", "methods": []any{"GET"}, "noAuth": true}},
	}, stored.Object["spec"])
}

// stored creates an APIRule.
func stored(t *testing.T, env *envtest.Environment) *v2.APIRule {
	t.Helper()
	apiRule := &v2.APIRule{
		ObjectMeta: metav1.ObjectMeta{Name: "price", Namespace: env.Namespace(t)},
		Spec: v2.APIRuleSpec{
			Hosts:   []v2.Host{"price.example.com"},
			Gateway: new("kyma-system/kyma-gateway"),
			Service: &v2.Service{Name: "price", Port: 80},
			Rules:   []v2.Rule{{Path: "/*", Methods: []v2.Method{"GET"}, NoAuth: new(true)}},
		},
	}
	require.NoError(t, env.Client.Create(t.Context(), apiRule))
	return apiRule
}

func TestBothVersionsShowTheSameObject(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	current := stored(t, env)
	current.Status = v2.APIRuleStatus{State: v2.StateReady, Description: "Reconciled successfully"}
	require.NoError(t, env.Client.Status().Update(t.Context(), current))

	earlier := &v2alpha1.APIRule{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(current), earlier))
	require.Equal(t, current.Spec, earlier.Spec)
	require.Equal(t, current.Status, earlier.Status)

	changed := earlier.DeepCopy()
	changed.Spec.Timeout = new(v2.Timeout(10))
	require.NoError(t, env.Client.Patch(t.Context(), changed, client.MergeFrom(earlier)))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(current), current))
	require.Equal(t, changed.Spec, current.Spec)
}

// Kyma's webhook removes the spec of an APIRule that it cannot convert.
func TestAPIRuleWithoutASpecIsReadable(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	empty := apiRule(t, "v2alpha1", env.Namespace(t), "{}")
	delete(empty.Object, "spec")
	require.NoError(t, env.Client.Create(t.Context(), empty))
	current := &v2.APIRule{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(empty), current))
	require.Empty(t, current.Spec)
}

func TestStatusIsASubresource(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	apiRule := stored(t, env)
	require.Equal(t, v2.APIRuleStatus{State: v2.StateProcessing, ObservedGeneration: -1}, apiRule.Status, "the APIRule has not been reconciled")
	want := v2.APIRuleStatus{
		LastProcessedTime: new(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))),
		State:             v2.StateWarning, Description: "why",
	}
	apiRule.Status = *want.DeepCopy()
	require.NoError(t, env.Client.Status().Update(t.Context(), apiRule))
	got := &v2.APIRule{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(apiRule), got))
	require.True(t, want.LastProcessedTime.Equal(got.Status.LastProcessedTime))
	require.Equal(t, want.State, got.Status.State)
	require.Equal(t, want.Description, got.Status.Description)
}

// Tools that read the object before the controller does must not consider it current.
func TestANewAPIRuleIsInProgressForKstatus(t *testing.T) {
	t.Parallel()
	gitops.RequireInProgress(t, stored(t, cluster.Environment(t)))
}

func TestStatusHasAState(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	apiRule := stored(t, env)
	for _, state := range []v2.State{v2.StateReady, v2.StateWarning, v2.StateError, v2.StateProcessing, v2.StateDeleting} {
		apiRule.Status.State = state
		require.NoError(t, env.Client.Status().Update(t.Context(), apiRule))
	}
	for _, state := range []v2.State{"", "OK", "ready"} {
		apiRule.Status.State = state
		causes := envtest.Causes(t, env.Client.Status().Update(t.Context(), apiRule))
		require.Contains(t, causes[0], "status.state: Unsupported value")
	}
}

func TestPrinterColumns(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	apiRule := stored(t, env)
	apiRule.Status.State = v2.StateReady
	require.NoError(t, env.Client.Status().Update(t.Context(), apiRule))
	for _, version := range versions {
		resource := v2.GroupVersion.WithResource("apirules")
		resource.Version = version
		table := env.Table(t, resource, apiRule.Namespace)
		var names []string
		for _, column := range table.ColumnDefinitions {
			names = append(names, column.Name)
		}
		require.Equal(t, []string{"Name", "Status", "Hosts"}, names)
		require.Len(t, table.Rows, 1)
		require.Equal(t, []any{"price", "Ready", `["price.example.com"]`}, table.Rows[0].Cells)
	}
}

func TestNamesOfTheResource(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		named := v2.GroupVersion.WithResource("apirules")
		named.Version = version
		resource := cluster.Environment(t).Resource(t, named)
		require.Equal(t, "APIRule", resource.Kind)
		require.Equal(t, "apirule", resource.SingularName)
		require.Empty(t, resource.ShortNames)
		require.Equal(t, []string{"kyma-api-gateway"}, resource.Categories)
		require.True(t, resource.Namespaced)
	}
}

func TestAPIRulesAreStoredAsV2alpha1WithoutAWebhook(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: "apirules.gateway.kyma-project.io"}, crd))
	require.Equal(t, []string{v2alpha1.GroupVersion.Version}, crd.Status.StoredVersions)
	require.Equal(t, apiextensionsv1.NoneConverter, crd.Spec.Conversion.Strategy)
	require.Len(t, crd.Spec.Versions, 2)
	specs := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, version := range crd.Spec.Versions {
		require.True(t, version.Served)
		require.False(t, version.Deprecated)
		specs[version.Name] = version.Schema.OpenAPIV3Schema.Properties["spec"]
	}
	require.Equal(t, specs["v2"], specs["v2alpha1"])
}

// The CRD defines what is accepted, so these tests need a real kube-apiserver.
var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// versions are the served versions. Both behave the same, unless a test states otherwise.
var versions = []string{"v2", "v2alpha1"}

const (
	host    = `hosts: [price.example.com]`
	gateway = `gateway: kyma-system/kyma-gateway`
	service = `service: {name: price, port: 80}`
	rules   = `rules: [{path: /*, methods: [GET], noAuth: true}]`
)

// apiRule returns an APIRule with the given YAML as its spec.
func apiRule(t *testing.T, version, namespace, spec string) *unstructured.Unstructured {
	t.Helper()
	return envtest.Object(t, `
apiVersion: gateway.kyma-project.io/`+version+`
kind: APIRule
metadata: {generateName: rule-, namespace: `+namespace+`}
spec: `+spec)
}

// create creates the object with dry run, and returns the object that the kube-apiserver would have stored.
func create(t *testing.T, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	stored := object.DeepCopy()
	err := cluster.Environment(t).Client.Create(t.Context(), stored, client.DryRunAll)
	return stored, err
}
