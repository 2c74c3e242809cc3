package manifest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// Local mode must report the errors of a cluster, which only a real kube-apiserver shows.
var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func TestLocalModeReportsTheProblemsOfAKubeAPIServer(t *testing.T) {
	t.Parallel()
	environment := cluster.Environment(t)
	namespace := environment.Namespace(t)
	inNamespace := func(base string) string {
		return strings.Replace(base, "metadata:\n", "metadata:\n  namespace: "+namespace+"\n", 1)
	}
	for name, text := range brokenObjects() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := inNamespace(text)
			err := environment.Client.Create(t.Context(), envtest.Object(t, text), client.DryRunAll,
				client.FieldValidation(metav1.FieldValidationStrict))
			require.Error(t, err, "the API server must reject the case")

			_, problems, readErr := Read(write(t, map[string]string{"x.yaml": text}))
			require.NoError(t, readErr)
			var got []string
			for _, problem := range problems {
				if !problem.Warning {
					got = append(got, problem.Message)
				}
			}
			if strings.Contains(err.Error(), "strict decoding error") {
				for _, message := range got {
					if strings.HasPrefix(message, "unknown field") {
						require.Contains(t, err.Error(), message)
					}
				}
				require.Equal(t, strings.Count(err.Error(), "unknown field"), strings.Count(strings.Join(got, "\n"), "unknown field"))
				return
			}
			require.ElementsMatch(t, causes(t, err), got)
		})
	}
}

// causes returns the errors without redundant ones: for negative replicas the API server also reports that the scale
// subresource cannot have them.
func causes(t *testing.T, err error) []string {
	t.Helper()
	return slices.DeleteFunc(envtest.Causes(t, err), func(cause string) bool { return strings.HasPrefix(cause, ".") })
}

// brokenObjects returns Functions, Subscriptions and APIRules that their CRDs reject, each for a different reason.
func brokenObjects() map[string]string {
	function := func(old, by string) string { return strings.Replace(price, old, by, 1) }
	subscription := func(old, by string) string { return strings.Replace(orders, old, by, 1) }
	apiRule := func(old, by string) string { return strings.Replace(public, old, by, 1) }
	return map[string]string{
		"a host with capitals":            apiRule("[price]", "[Price]"),
		"two hosts":                       apiRule("[price]", "[a, b]"),
		"no hosts":                        apiRule("  hosts: [price]\n", ""),
		"a gateway without namespace":     apiRule("kyma-system/", ""),
		"a rule without access":           apiRule("    noAuth: true\n", ""),
		"a rule with two kinds of access": public + "    jwt: {authentications: [{issuer: a, jwksUri: b}]}\n",
		"an unknown method":               apiRule("[GET]", "[LIST]"),
		"a malformed path":                apiRule("/*", "a"),
		"a long timeout":                  apiRule("  rules:", "  timeout: 4000\n  rules:"),
		"an unknown field of a rule":      public + "    noauth: true\n",
		"an unknown runtime":              function("nodejs22", "cobol"),
		"no runtime":                      function("  runtime: nodejs22\n", ""),
		"a runtime that is a number":      function("nodejs22", "22"),
		"no source":                       strings.Split(price, "  source:")[0],
		"no spec":                         strings.Split(price, "spec:")[0],
		"an empty source":                 strings.Split(price, "|")[0] + "\"\"\n",
		"both sources":                    price + "    gitRepository: {url: \"https://example.com/a\", reference: main}\n",
		"an unknown field":                function("  runtime", "  runtme: nodejs22\n  runtime"),
		"unknown fields, one of meta":     function("  runtime", "  a: {b: 1}\n  runtime") + "    x: y\n",
		"a reserved variable":             function("  source:", "  env: [{name: FUNC_PORT, value: a}]\n  source:"),
		"a reserved label":                function("  source:", "  labels: {serverless.kyma-project.io/a: b}\n  source:"),
		"a long label":                    function("  source:", "  labels: {"+strings.Repeat("x", 64)+": a}\n  source:"),
		"replicas below zero":             function("  source:", "  replicas: -1\n  source:"),
		"bounds the wrong way around":     function("  source:", "  scaleConfig: {minReplicas: 3, maxReplicas: 2}\n  source:"),
		"a maximum of zero replicas":      function("  source:", "  scaleConfig: {maxReplicas: 0}\n  source:"),
		"an unknown profile":              function("  source:", "  resourceConfiguration: {function: {profile: XXL}}\n  source:"),
		"a profile and resources":         function("  source:", "  resourceConfiguration: {function: {profile: S, resources: {limits: {cpu: 1}}}}\n  source:"),
		"a mount without a path":          function("  source:", "  secretMounts: [{secretName: a}]\n  source:"),
		"an empty secret name":            function("  source:", "  secretMounts: [{secretName: \"\", mountPath: /a}]\n  source:"),
		"a name with capitals":            function("name: price", "name: Price"),
		"a malformed label":               function("name: price", "name: price\n  labels: {\"a b\": \"c d\"}"),
		"types that are not a list":       subscription("[order.received]", "order.received"),
		"a type that is a number":         subscription("[order.received]", "[1]"),
		"no sink":                         strings.Split(orders, "  sink:")[0],
		"settings that are numbers":       subscription("  source:", "  config: {maxInFlightMessages: 1}\n  source:"),
		"an unknown setting":              subscription("  source:", "  filters: {}\n  source:"),
		"too many attempts":               subscription("  source:", "  delivery: {maxAttempts: 100000}\n  source:"),
		"an unknown backoff":              subscription("  source:", "  delivery: {backoff: {policy: never}}\n  source:"),
		"a start without its time":        subscription("  source:", "  delivery: {startFrom: {position: time}}\n  source:"),
	}
}

// TestDefaultsAreThoseOfAKubeAPIServer compares the decoded form of accepted objects.
func TestDefaultsAreThoseOfAKubeAPIServer(t *testing.T) {
	t.Parallel()
	environment := cluster.Environment(t)
	namespace := environment.Namespace(t)
	earlier := strings.NewReplacer("/v2", "/v2alpha1", "name: public", "name: earlier").Replace(public)
	text := strings.ReplaceAll(price+"---\n"+orders+"---\n"+public+"---\n"+earlier, "metadata:\n", "metadata:\n  namespace: "+namespace+"\n")
	text = strings.ReplaceAll(text, ".default.", "."+namespace+".")
	dir := write(t, map[string]string{"x.yaml": text})
	set, problems := read(t, dir)
	require.Empty(t, problems)
	for document := range strings.SplitSeq(text, "---\n") {
		object := envtest.Object(t, document)
		require.NoError(t, environment.Client.Create(t.Context(), object))
	}
	fn, sub := set.Functions[0].DeepCopy(), set.Subscriptions[0].DeepCopy()
	stored := *fn.DeepCopy()
	require.NoError(t, environment.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: fn.Name}, &stored))
	require.Equal(t, stored.Spec, fn.Spec)
	kept := *sub.DeepCopy()
	require.NoError(t, environment.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: sub.Name}, &kept))
	require.Equal(t, kept.Spec, sub.Spec)
	require.Len(t, set.APIRules, 2)
	for _, rule := range set.APIRules {
		served := *rule.DeepCopy()
		require.NoError(t, environment.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: rule.Name}, &served))
		require.Equal(t, served.Spec, rule.Spec)
	}
	require.Equal(t, filepath.Join(dir, "x.yaml"), set.Functions[0].At.File)
}
