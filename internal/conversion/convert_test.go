package conversion

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

// document is an APIRule of version v1beta1 whose spec has the given fields besides those that it needs.
func document(fields string) string {
	spec := map[string]string{
		"host":    "host: price.example.com",
		"gateway": "gateway: kyma-system/kyma-gateway",
		"service": "service: {name: price, port: 80}",
		"rules":   "rules: [{path: /a, methods: [GET], accessStrategies: [{handler: no_auth}]}]",
	}
	lines := []string{"apiVersion: gateway.kyma-project.io/v1beta1", "kind: APIRule", "metadata: {name: price, namespace: shop}", "spec:"}
	for _, key := range []string{"host", "gateway", "service", "rules"} {
		if !strings.HasPrefix(fields, key+":") {
			lines = append(lines, "  "+spec[key])
		}
	}
	return strings.Join(append(lines, "  "+strings.ReplaceAll(fields, "\n", "\n  ")), "\n")
}

// ruleOf is the document with one rule, which has the given fields in place of those it needs.
func ruleOf(fields string) string {
	needed := []string{fields}
	for key, value := range map[string]string{"path": "/a", "methods": "[GET]", "accessStrategies": "[{handler: no_auth}]"} {
		if !strings.Contains(fields, key+":") {
			needed = append(needed, key+": "+value)
		}
	}
	return document("rules: [{" + strings.Join(needed, ", ") + "}]")
}

func convert(t *testing.T, document string) (*v2.APIRule, apirule.Problems) {
	t.Helper()
	made, problems, err := ConvertAPIRule([]byte(document))
	require.NoError(t, err)
	return made, problems
}

func TestAPIRuleOfTheCommandLineOfKymaIsConverted(t *testing.T) {
	t.Parallel()
	made, problems := convert(t, `
apiVersion: gateway.kyma-project.io/v1beta1
kind: APIRule
metadata:
  name: price
  namespace: shop
  labels: {app: price}
  annotations: {gateway.kyma-project.io/original-version: v1beta1, kubectl.kubernetes.io/last-applied-configuration: "{}", a: b}
  uid: 0f0e
  finalizers: [gateway.kyma-project.io/subresources]
spec:
  host: Price.example.com
  gateway: kyma-system/kyma-gateway
  service: {name: price, namespace: shop, port: 80}
  rules:
    - path: /.*
      methods: [GET, POST]
      accessStrategies: [{handler: noop}]
      timeout: 30
status:
  lastProcessedTime: "2026-01-02T03:04:05Z"
  APIRuleStatus: {code: OK, desc: done}
`)
	require.Empty(t, problems)
	require.Equal(t, &v2.APIRule{
		TypeMeta: metav1.TypeMeta{APIVersion: "gateway.kyma-project.io/v2", Kind: "APIRule"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "price", Namespace: "shop", Labels: map[string]string{"app": "price"}, Annotations: map[string]string{"a": "b"},
		},
		Spec: v2.APIRuleSpec{
			Hosts:   []v2.Host{"price.example.com"},
			Gateway: new("kyma-system/kyma-gateway"),
			Service: &v2.Service{Name: "price", Namespace: "shop", Port: 80},
			CORSPolicy: &v2.CORSPolicy{
				AllowOrigins: []v2.StringMatch{{"regex": ".*"}},
				AllowMethods: []string{"GET", "POST", "PUT", "DELETE", "PATCH"},
				AllowHeaders: []string{"Authorization", "Content-Type", "*"},
			},
			Rules: []v2.Rule{{Path: "/*", Methods: []v2.Method{"GET", "POST"}, NoAuth: new(true), Timeout: new(v2.Timeout(30))}},
		},
		Status: v2.APIRuleStatus{
			LastProcessedTime: new(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Local())),
			State:             v2.StateReady, Description: "done",
		},
	}, made)
}

func TestFieldsOfTheSpecAreConverted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fields string
		want   func(*v2.APIRuleSpec)
	}{
		"a short host":                      {`host: price`, func(s *v2.APIRuleSpec) { s.Hosts = []v2.Host{"price"} }},
		"a gateway by its Service's name":   {`gateway: gw.istio.svc.cluster.local`, func(s *v2.APIRuleSpec) { s.Gateway = new("istio/gw") }},
		"a gateway by the name's begin":     {`gateway: gw.istio.svc`, func(s *v2.APIRuleSpec) { s.Gateway = new("istio/gw") }},
		"a gateway by name and namespace":   {`gateway: gw.istio`, func(s *v2.APIRuleSpec) { s.Gateway = new("istio/gw") }},
		"a gateway of its namespace":        {`gateway: gw`, func(s *v2.APIRuleSpec) { s.Gateway = new("shop/gw") }},
		"a time in seconds":                 {`timeout: 3900`, func(s *v2.APIRuleSpec) { s.Timeout = new(v2.Timeout(3900)) }},
		"a time with a unit":                {`timeout: 1m1.5s`, func(s *v2.APIRuleSpec) { s.Timeout = new(v2.Timeout(62)) }},
		"an external Service":               {`service: {name: price, port: 80, external: true}`, func(s *v2.APIRuleSpec) { s.Service.External = new(true) }},
		"no Service but those of rules":     {`service: null`, func(s *v2.APIRuleSpec) { s.Service = nil }},
		"an empty corsPolicy has no effect": {`corsPolicy: {}`, func(s *v2.APIRuleSpec) { s.CORSPolicy = &v2.CORSPolicy{} }},
		"origins, and an age with its units": {`corsPolicy: {allowOrigins: [{exact: a}, {prefix: b}], allowMethods: [GET], allowHeaders: [C], exposeHeaders: [D], allowCredentials: true, maxAge: 10m}`, func(s *v2.APIRuleSpec) {
			s.CORSPolicy = &v2.CORSPolicy{
				AllowOrigins: []v2.StringMatch{{"exact": "a"}, {"prefix": "b"}}, AllowMethods: []string{"GET"}, AllowHeaders: []string{"C"},
				ExposeHeaders: []string{"D"}, AllowCredentials: new(true), MaxAge: new(int64(600)),
			}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, problems := convert(t, document(""))
			require.Empty(t, problems)
			tc.want(&want.Spec)
			made, problems := convert(t, document(tc.fields))
			require.Empty(t, problems)
			require.Equal(t, want.Spec, made.Spec)
		})
	}
}

func TestFieldsOfTheSpecThatCannotBeConvertedAreNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ fields, attribute, message string }{
		"no host":                        {`host: ""`, ".spec.host", `"" is no fully qualified domain name and no single label: write a host of letters, digits and hyphens`},
		"a host with an underscore":      {`host: a_b.example.com`, ".spec.host", `"a_b.example.com" is no fully qualified domain name and no single label: write a host of letters, digits and hyphens`},
		"a gateway with an underscore":   {`gateway: a/b_c`, ".spec.gateway", `"a/b_c" does not name a namespace and a gateway: write namespace/name`},
		"a gateway with a longer domain": {`gateway: a.b.c`, ".spec.gateway", `"a.b.c" does not name a namespace and a gateway: write namespace/name`},
		"no gateway":                     {`gateway: ""`, ".spec.gateway", `"" does not name a namespace and a gateway: write namespace/name`},
		"no time":                        {`timeout: 0`, ".spec.timeout", `0 is no time from 1 to 3900 seconds`},
		"a time too long":                {`timeout: 66m`, ".spec.timeout", `"66m" is no time from 1 to 3900 seconds`},
		"an age below a second":          {`corsPolicy: {maxAge: 10ms}`, ".spec.corsPolicy.maxAge", `"10ms" is no time of at least a second`},
		"no rules":                       {`rules: []`, ".spec.rules", `there are 0: write at least 1, and at most 1000`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := convert(t, document(tc.fields))
			require.Equal(t, apirule.Problems{{Attribute: tc.attribute, Message: tc.message}}, problems)
		})
	}
}

func TestStatusIsConverted(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]v2.State{"OK": v2.StateReady, "WARNING": v2.StateWarning, "ERROR": v2.StateError, "SKIPPED": v2.StateWarning, "": ""} {
		made, _ := convert(t, document("")+"\nstatus: {APIRuleStatus: {code: '"+code+"', desc: why}}")
		require.Equal(t, v2.APIRuleStatus{State: want, Description: "why"}, made.Status)
	}
}

func TestOldestVersionHasItsHostInTheService(t *testing.T) {
	t.Parallel()
	made, problems := convert(t, `
apiVersion: gateway.kyma-project.io/v1alpha1
kind: APIRule
metadata: {name: price, namespace: shop}
spec:
  gateway: kyma-gateway.kyma-system.svc.cluster.local
  service: {host: price, name: price, port: 80}
  rules: [{path: /a, methods: [get], accessStrategies: [{handler: allow}]}]
`)
	require.Empty(t, problems)
	require.Equal(t, []v2.Host{"price"}, made.Spec.Hosts)
	require.Equal(t, "kyma-system/kyma-gateway", *made.Spec.Gateway)
	require.Equal(t, []v2.Rule{{Path: "/a", Methods: []v2.Method{"GET"}, NoAuth: new(true)}}, made.Spec.Rules)
}

func TestSpecInTheAnnotationOfKymaIsConverted(t *testing.T) {
	t.Parallel()
	made, problems := convert(t, `
apiVersion: gateway.kyma-project.io/v2
kind: APIRule
metadata:
  name: price
  namespace: shop
  annotations:
    gateway.kyma-project.io/original-version: v1beta1
    gateway.kyma-project.io/v1beta1-spec: '{"host":"price","gateway":"a/b","service":{"name":"price","port":80},"rules":[{"path":"/a(.*)","methods":["GET"],"accessStrategies":[{"handler":"allow"}]}]}'
spec: {}
status: {state: Warning}
`)
	require.Empty(t, problems)
	require.Equal(t, "price", made.Name)
	require.Empty(t, made.Annotations)
	require.Equal(t, []v2.Host{"price"}, made.Spec.Hosts)
	require.Len(t, made.Spec.Rules, 2)
	require.Empty(t, made.Status, "it is one of the later version")
}

func TestOtherDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	object := func(version, kind, annotations string) string {
		return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {annotations: {" + annotations + "}}"
	}
	const kept = "gateway.kyma-project.io/v1beta1-spec: "
	for name, document := range map[string]string{
		"another kind":         object("gateway.kyma-project.io/v1beta1", "RateLimit", ""),
		"another group":        object("example.com/v1beta1", "APIRule", ""),
		"the current version":  object("gateway.kyma-project.io/v2", "APIRule", ""),
		"v2 with another spec": object("gateway.kyma-project.io/v2", "APIRule", "gateway.kyma-project.io/original-version: v2, "+kept+"'{}'"),
		"nothing":              "",
	} {
		_, _, err := ConvertAPIRule([]byte(document))
		require.ErrorIs(t, err, ErrNotOldAPIRule, name)
	}
	for name, document := range map[string]string{
		"no YAML":               "{",
		"a list":                "- a",
		"rules that are a word": document("rules: all"),
		"a broken annotation":   object("gateway.kyma-project.io/v2", "APIRule", "gateway.kyma-project.io/original-version: v1beta1, "+kept+"'{'"),
		"more than a cluster":   strings.Repeat(" ", MaxDocument+1),
	} {
		_, _, err := ConvertAPIRule([]byte(document))
		require.Error(t, err, name)
		require.NotErrorIs(t, err, ErrNotOldAPIRule, name)
	}
}
