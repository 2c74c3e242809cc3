package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// write makes a folder with files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return dir
}

// read reads a folder; its problems contain file names relative to it.
func read(t *testing.T, dir string) (set Set, problems []string) {
	t.Helper()
	set, found, err := Read(dir)
	require.NoError(t, err)
	for _, problem := range found {
		text := strings.ReplaceAll(problem.Error(), dir+string(filepath.Separator), "")
		if problem.Warning {
			text = "warning: " + text
		}
		problems = append(problems, text)
	}
	return set, problems
}

const price = `apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata:
  name: price
spec:
  runtime: nodejs22
  source:
    inline:
      source: |
        module.exports = {
          main: () => "ok",
        }
`

const orders = `apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata:
  name: orders
spec:
  source: shop
  types: [order.received]
  sink: http://price.default.svc.cluster.local
`

const public = `apiVersion: gateway.kyma-project.io/v2
kind: APIRule
metadata:
  name: public
spec:
  gateway: kyma-system/kyma-gateway
  hosts: [price]
  service: {name: price, port: 80}
  rules:
  - path: /*
    methods: [GET]
    noAuth: true
`

func TestSampleIsReadWithoutChanges(t *testing.T) {
	t.Parallel()
	set, problems := read(t, "../../samples/orders")
	require.Empty(t, problems)
	require.Len(t, set.Functions, 3)
	require.NotEmpty(t, set.Subscriptions)
	for _, fn := range set.Functions {
		require.Equal(t, "orders", fn.Namespace)
		require.NotZero(t, fn.At.Line)
		line := strings.Split(string(must(os.ReadFile(fn.Source.File))), "\n")[fn.Source.Line-1]
		first, _, _ := strings.Cut(fn.Spec.Source.Inline.Source, "\n")
		require.Equal(t, first, strings.TrimSpace(line), "the source begins where it is said to")
	}
}

func TestShopIsReadWithoutChanges(t *testing.T) {
	t.Parallel()
	set, problems := read(t, "../../samples/shop")
	require.Empty(t, problems)
	require.Len(t, set.APIRules, 1)
	require.Contains(t, set.APIRules[0].At.File, "apirule.yaml")
	require.Len(t, set.Functions, 5)
	require.Len(t, set.Subscriptions, 4)
	for _, sub := range set.Subscriptions {
		require.Equal(t, sub.Name == "pricing", sub.Route.DeadLetters != nil, "%s: what pricing refuses goes to the page", sub.Name)
	}
}

// Each folder of samples passes the schema, the rules and the validation of a cluster.
func TestEachSampleIsReadWithoutProblems(t *testing.T) {
	t.Parallel()
	samples, err := filepath.Glob("../../samples/*/kustomization.yaml")
	require.NoError(t, err)
	withFunctions := 0
	for _, sample := range samples {
		set, problems := read(t, filepath.Dir(sample))
		if len(set.Functions) == 0 {
			requireOnlyWarnings(t, sample, problems)
			continue
		}
		withFunctions++
		require.Empty(t, problems, sample)
	}
	require.GreaterOrEqual(t, withFunctions, 4)
}

// requireOnlyWarnings reports a problem of a sample of workloads, which run in a cluster alone: local mode leaves
// them out, with a warning for each.
func requireOnlyWarnings(t *testing.T, sample string, problems []string) {
	t.Helper()
	require.NotEmpty(t, problems, "%s: what local mode leaves out is said", sample)
	for _, problem := range problems {
		require.Contains(t, problem, "warning: ", sample)
	}
}

func must(content []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return content
}

func TestObjectsGetTheDefaultsOfACluster(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"deep/er/fn.yml": price + "---\n" + orders,
		"config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rates, namespace: shop}\ndata: {eur: \"1\"}\n---\n" +
			"apiVersion: v1\nkind: Secret\nmetadata: {name: key}\ndata: {a: b2xk, b: Yg==}\nstringData: {a: new}\n",
		".hidden/fn.yaml":        price,
		"node_modules/x/fn.yaml": price,
		"notes.txt":              "no manifest",
		"empty.yaml":             "",
		"comment.yaml":           "# nothing\n---\n---\n",
		"namespace.yaml":         "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
		"list.yaml":              "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: listed}\n",
		"windows.yaml":           "\xef\xbb\xbfapiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: windows\r\n---\r\napiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: second\r\n",
		"anchors.yaml":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: anchors, labels: &l {a: b}, annotations: *l}\n",
		"deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\n---\n" +
			"apiVersion: v1\nkind: Secret\nmetadata: {name: of-a}\n",
		"tools/docker-compose.yml": "services: {}\n",
	})
	set, problems := read(t, dir)
	require.Equal(t, []string{
		"warning: deployment.yaml:2: Deployment default/a: local mode has no Deployment: it is left out",
	}, problems)
	require.Len(t, set.Functions, 1)
	require.EqualValues(t, 1, *set.Functions[0].Spec.Replicas, "the default of the CRD")
	require.Equal(t, "default", set.Functions[0].Namespace)
	require.Equal(t, 10, set.Functions[0].Source.Line)
	require.Equal(t, "price", set.Subscriptions[0].Route.Service.Name)
	require.Equal(t, 14, set.Subscriptions[0].At.Line)
	require.Len(t, set.ConfigMaps, 5)
	require.Equal(t, map[string][]byte{"a": []byte("new"), "b": []byte("b")}, set.Secrets[0].Data)
	require.Contains(t, set.Files, filepath.Join(dir, "empty.yaml"))
	require.NotContains(t, set.Files, filepath.Join(dir, "notes.txt"))
}

func TestASubscriptionSignsByTheSecretInTheFolder(t *testing.T) {
	t.Parallel()
	signing := "apiVersion: eventing.kyma-project.io/v1alpha2\nkind: Subscription\nmetadata: {name: partner}\n" +
		"spec: {source: shop, types: [order.placed.v1], sink: 'http://price.default.svc.cluster.local', delivery: {webhook: {secretName: partner}}}\n"
	for name, tc := range map[string]struct{ key, warns string }{
		"a key":  {"whsec_" + strings.Repeat("A", 32), ""},
		"none":   {"", "Secret partner: the Secret is missing or has no key current: events of this Subscription wait"},
		"no key": {"hush", "must be whsec_"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"a.yaml": signing}
			if tc.key != "" {
				files["b.yaml"] = "apiVersion: v1\nkind: Secret\nmetadata: {name: partner}\nstringData: {current: " + tc.key + "}\n"
			}
			set, problems := read(t, write(t, files))
			require.Len(t, set.Subscriptions, 1)
			keys := set.Subscriptions[0].Route.Delivery.Webhook.Keys
			if tc.warns == "" {
				require.Equal(t, tc.key, string(keys.Current))
				return
			}
			require.Nil(t, keys)
			require.Contains(t, fmt.Sprint(problems), tc.warns)
		})
	}
}

func TestProblemsNameTheLineOfTheField(t *testing.T) {
	t.Parallel()
	edit := func(base, old, by string) map[string]string {
		require.Contains(t, base, old)
		return map[string]string{"x.yaml": "# first line\n" + strings.Replace(base, old, by, 1)}
	}
	tests := map[string]struct {
		files map[string]string
		want  []string
	}{
		"an unknown runtime": {
			edit(price, "nodejs22", "cobol"),
			[]string{`x.yaml:7: Function default/price: spec.runtime: Unsupported value: "cobol": supported values: `},
		},
		"a missing field": {
			edit(price, "  runtime: nodejs22\n", ""),
			[]string{"x.yaml:6: Function default/price: spec.runtime: Required value (add the field)"},
		},
		"an unknown field with a suggestion": {
			edit(price, "runtime", "runtme"),
			[]string{
				"x.yaml:6: Function default/price: spec.runtime: Required value",
				`x.yaml:7: Function default/price: unknown field "spec.runtme"`,
			},
		},
		"unknown metadata": {
			edit(price, "name: price", "name: price\n  lables: {}"),
			[]string{`x.yaml:6: Function default/price: unknown field "metadata.lables"`},
		},
		"a duplicate field": {
			edit(price, "  runtime: nodejs22\n", "  runtime: nodejs22\n  runtime: nodejs22\n"),
			[]string{`x.yaml:8: Function default/price: duplicate field "spec.runtime"`},
		},
		"a rule of the CRD": {
			edit(price, "  source:\n", "  env:\n  - name: FUNC_PORT\n    value: x\n  source:\n"),
			[]string{"x.yaml:8: Function default/price: spec.env: Invalid value: "},
		},
		"a name of a variable": {
			edit(price, "  source:\n", "  env:\n  - name: a\n  - name: b=c\n  source:\n"),
			[]string{"x.yaml:10: Function default/price: spec.env: b=c. Err: "},
		},
		"an annotation with dots and a slash": {
			edit(price, "name: price", "name: price\n  annotations:\n    rouse.run/restart-on-change: perhaps"),
			[]string{"x.yaml:7: Function default/price: annotation rouse.run/restart-on-change: invalid value"},
		},
		"resources": {
			edit(price, "  source:\n", "  resourceConfiguration:\n    function:\n      resources:\n        limits:\n          cpu: 1m\n  source:\n"),
			[]string{"x.yaml:12: Function default/price: Function limits cpu(1m) should be higher than minimal value (10m)"},
		},
		"a number where a text belongs": {
			edit(price, "name: price", "name: 1"),
			[]string{"x.yaml:4: "},
		},
		"a name that no Service can have": {
			edit(price, "name: price", "name: a.b"),
			[]string{`x.yaml:5: Function default/a.b: metadata.name: "a.b" cannot be the name of a Service`},
		},
		"no name": {
			edit(price, "  name: price", "  labels: {}"),
			[]string{"x.yaml:4: Function: metadata.name: Required value: name or generateName is required"},
		},
		"one of several types": {
			edit(orders, "[order.received]", "\n  - order.received\n  - order"),
			[]string{`x.yaml:10: Subscription default/orders: spec.types: Invalid value: "order": must have minimum 2 segments`},
		},
		"one of several settings": {
			edit(orders, "  source: shop", "  config:\n    qos: AT_LEAST_ONCE\n    maxInFlightMessages: many\n  source: shop"),
			[]string{`x.yaml:9: Subscription default/orders: spec.config: Invalid value: "many": maxInFlightMessages must be a stringified int value`},
		},
		"a sink elsewhere": {
			edit(orders, "price.default.svc.cluster.local", "example.com"),
			[]string{`x.yaml:9: Subscription default/orders: spec.sink: Invalid value: "http://example.com": must have valid sink URL suffix`},
		},
		"a path of an APIRule": {
			edit(public, "/*", "prices"),
			[]string{`x.yaml:11: APIRule default/public: spec.rules[0].path: Invalid value: "prices": `},
		},
		"an APIRule without access": {
			edit(public, "    noAuth: true\n", ""),
			[]string{`x.yaml:11: APIRule default/public: spec.rules[0]: Invalid value: One of the following fields must be set: noAuth, jwt, extAuth`},
		},
		"an unknown field of an APIRule": {
			edit(public, "    noAuth", "    nope: 1\n    noAuth"),
			[]string{`x.yaml:13: APIRule default/public: unknown field "spec.rules[0].nope"`},
		},
		"an APIRule of a version no longer served": {
			edit(public, "/v2", "/v1beta1"),
			[]string{`x.yaml:2: APIRule default/public: no matches for kind "APIRule" in version "gateway.kyma-project.io/v1beta1" (rouse convert -f x.yaml writes it as gateway.kyma-project.io/v2)`},
		},
		"a Function of a version no longer served": {
			edit(price, "/v1alpha2", "/v1alpha1"),
			[]string{`x.yaml:2: Function default/price: no matches for kind "Function" in version "serverless.kyma-project.io/v1alpha1" (rouse convert -f x.yaml writes it as serverless.kyma-project.io/v1alpha2)`},
		},
		"a GitRepository": {
			map[string]string{"x.yaml": "apiVersion: serverless.kyma-project.io/v1alpha1\nkind: GitRepository\nmetadata: {name: a}\n"},
			[]string{"warning: x.yaml:2: GitRepository default/a: local mode has no GitRepository: it is left out (rouse convert -f x.yaml puts it into its Functions)"},
		},
		"an APIRule in two versions": {
			map[string]string{"x.yaml": public, "y.yaml": strings.Replace(public, "/v2", "/v2alpha1", 1)},
			[]string{"y.yaml:4: APIRule default/public: is already in x.yaml:1"},
		},
		"a sink outside of the folder": {
			edit(orders, "price.default", "other.default"),
			[]string{"warning: x.yaml:9: Subscription default/orders: service other.default not found in the folder"},
		},
		"an unknown version": {
			edit(price, "v1alpha2", "v1"),
			[]string{`x.yaml:2: Function default/price: no matches for kind "Function" in version "serverless.kyma-project.io/v1" (use serverless.kyma-project.io/v1alpha2)`},
		},
		"no kind": {
			edit(price, "kind: Function\n", ""), []string{"x.yaml:2: "},
		},
		"a tab": {
			map[string]string{"x.yaml": price + "---\na:\n\tb: 1\n"},
			[]string{"x.yaml:15: is no YAML: found character that cannot start any token (indent with spaces"},
		},
		"a list": {
			map[string]string{"x.yaml": price + "---\n- a\n"}, []string{"x.yaml:14: is not an object: it has no fields"},
		},
		"the same object twice": {
			map[string]string{"x.yaml": price, "y.yaml": price},
			[]string{"y.yaml:4: Function default/price: is already in x.yaml:1"},
		},
		"a deprecated runtime": {
			edit(price, "nodejs22", "nodejs20"),
			[]string{"warning: x.yaml:7: Function default/price: runtime nodejs20 is deprecated"},
		},
		"a ConfigMap with a number": {
			map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  n: 1\n"},
			[]string{"x.yaml:4: ConfigMap default/a: json: cannot unmarshal number into Go struct field ConfigMap.data of type string"},
		},
		"a ConfigMap with an unknown field": {
			map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndate:\n  n: \"1\"\n"},
			[]string{`x.yaml:4: ConfigMap default/a: unknown field "date"`},
		},
		"a Secret that is not base64": {
			map[string]string{"x.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n  n: \"%\"\n"},
			[]string{"x.yaml:"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := read(t, write(t, tc.files))
			require.Len(t, problems, len(tc.want), problems)
			for i, want := range tc.want {
				require.Contains(t, problems[i], want)
				file, _, _ := strings.Cut(want, ":")
				require.True(t, strings.HasPrefix(problems[i], file+":"), problems[i])
			}
		})
	}
}

func TestAnObjectWithAProblemDoesNotHideOthers(t *testing.T) {
	t.Parallel()
	set, problems := read(t, write(t, map[string]string{
		"a.yaml": "kind: Secret\na: {", "b.yaml": strings.ReplaceAll(price, "nodejs22", "cobol") + "---\n" + orders,
		"c.yaml": strings.ReplaceAll(price, "name: price", "name: tax"),
	}))
	require.Len(t, problems, 2, "the Service of a Function with a problem must count as declared")
	require.Len(t, set.Functions, 1)
	require.Len(t, set.Subscriptions, 1)
}

// Like the output of kubectl get.
func TestServerFieldsOfAnAPIRuleAreIgnoredInFiles(t *testing.T) {
	t.Parallel()
	const past = "name: public\n  uid: a\n  generation: 7\n  creationTimestamp: 2020-01-01T00:00:00Z\n  deletionTimestamp: 2020-01-01T00:00:00Z"
	set, problems := read(t, write(t, map[string]string{
		"x.yaml": strings.Replace(public, "name: public", past, 1) + "status: {state: Error, description: old}\n",
	}))
	require.Empty(t, problems)
	require.Len(t, set.APIRules, 1)
	rule := set.APIRules[0]
	require.True(t, rule.CreationTimestamp.IsZero() && rule.DeletionTimestamp.IsZero())
	require.Empty(t, rule.UID)
	require.Zero(t, rule.Generation)
	require.Empty(t, rule.Status)
	require.Equal(t, "x.yaml:15", filepath.Base(rule.Problem(".spec.rules[0].methods[0]", "", "").String()))
}

func TestUnreadableFilesAreReported(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"a.yaml": price, "large.yaml": "# " + strings.Repeat("x", maxFile)})
	require.NoError(t, os.Symlink("loop.yaml", filepath.Join(dir, "loop.yaml")))
	require.NoError(t, os.Symlink(".", filepath.Join(dir, "self")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "dangling.yaml")))
	set, problems := read(t, dir)
	require.Len(t, set.Functions, 1)
	require.Equal(t, []string{
		"dangling.yaml: cannot be read: no such file or directory",
		"large.yaml: cannot be read: it is larger than 3 MiB, the most that an API server takes",
		"loop.yaml: cannot be read: too many levels of symbolic links",
	}, problems)

	_, _, err := Read(filepath.Join(dir, "missing"))
	require.ErrorContains(t, err, "missing")
	_, _, err = Read(filepath.Join(dir, "a.yaml"))
	require.ErrorContains(t, err, "a.yaml")
}

func TestDependenciesAreAtTheFileThatTheUserEdits(t *testing.T) {
	t.Parallel()
	const packages = "{\"dependencies\": {\"left-pad\": \"1.3.0\"}}\n"
	dir := write(t, map[string]string{
		"kustomization.yaml": `resources: [fn.yaml]
configMapGenerator:
- name: code
  files: [package.json]
  options: {annotations: {config.kubernetes.io/local-config: "true"}}
generatorOptions: {disableNameSuffixHash: true}
replacements:
- source: {kind: ConfigMap, name: code, fieldPath: "data.[package.json]"}
  targets:
  - select: {kind: Function}
    fieldPaths: [spec.source.inline.dependencies]
    options: {create: true}
`, "fn.yaml": price, "package.json": packages, "a/package.json": packages,
	})
	set, problems := read(t, dir)
	require.Empty(t, problems)
	require.JSONEq(t, packages, set.Functions[0].Spec.Source.Inline.Dependencies)
	require.Equal(t, Position{File: filepath.Join(dir, "package.json"), Line: 1}, set.Functions[0].Dependencies)

	dir = write(t, map[string]string{"fn.yaml": strings.Replace(price, "inline:\n", "inline:\n      dependencies: |\n        {}\n", 1)})
	set, problems = read(t, dir)
	require.Empty(t, problems)
	require.Equal(t, Position{File: filepath.Join(dir, "fn.yaml"), Line: 10}, set.Functions[0].Dependencies)
}

func TestAKustomizationIsBuilt(t *testing.T) {
	t.Parallel()
	const handler = "module.exports = { main: () => 1 }\n"
	const folder = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: shop
resources: [fn.yaml, config.yaml]
configMapGenerator:
- name: code
  files: [handler.js]
generatorOptions: {disableNameSuffixHash: true}
replacements:
- source: {kind: ConfigMap, name: code, fieldPath: "data.[handler.js]"}
  targets:
  - select: {kind: Function}
    fieldPaths: [spec.source.inline.source]
`
	dir := write(t, map[string]string{
		"kustomization.yaml": folder, "fn.yaml": strings.Split(price, "source: |")[0] + "source: \"\"\n", "handler.js": handler,
		"config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndate: {}\n", "not-named.yaml": price,
	})
	set, problems := read(t, dir)
	require.Equal(t, []string{
		`config.yaml:4: ConfigMap shop/a: unknown field "date" (check its spelling and its indentation, or remove it)`,
	}, problems)
	require.Len(t, set.Functions, 1)
	fn := set.Functions[0]
	require.Equal(t, "shop", fn.Namespace)
	require.Equal(t, handler, fn.Spec.Source.Inline.Source)
	require.Equal(t, Position{File: filepath.Join(dir, "handler.js"), Line: 1}, fn.Source)
	require.Equal(t, filepath.Join(dir, "fn.yaml"), fn.At.File)
	require.Empty(t, fn.Annotations)
	require.Contains(t, set.Files, filepath.Join(dir, "handler.js"))
	require.NotContains(t, set.Files, filepath.Join(dir, "not-named.yaml"))
}

func TestABaseIsReadThroughItsOverlay(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"base/kustomization.yaml":    "resources: [fn.yaml]\n",
		"base/fn.yaml":               price,
		"overlay/kustomization.yaml": "namePrefix: my-\nresources: [../base]\n",
	})
	set, problems := read(t, dir)
	require.Empty(t, problems)
	require.Len(t, set.Functions, 1)
	require.Equal(t, "my-price", set.Functions[0].Name)
	require.Equal(t, Position{File: filepath.Join(dir, "base/fn.yaml"), Line: 10}, set.Functions[0].Source)
}

func TestBrokenKustomizationHasItsPosition(t *testing.T) {
	t.Parallel()
	set, problems := read(t, write(t, map[string]string{
		"a/kustomization.yaml": "resources:\n- fn.yaml\n- missing.yaml\n", "a/fn.yaml": price,
		"b/fn.yaml": strings.ReplaceAll(price, "name: price", "name: tax"),
	}))
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "a/kustomization.yaml:3: kustomize: ")
	require.Contains(t, problems[0], "missing.yaml")
	require.Len(t, set.Functions, 1)
}

func TestProblemConcernsTheObjectsThatItMayHide(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		problem Problem
		want    bool
	}{
		"the object itself":                    {Problem{Object: "Function orders/pricing"}, true},
		"a file that cannot be read":           {Problem{}, true},
		"another object":                       {Problem{Object: "Function orders/price"}, false},
		"another kind":                         {Problem{Object: "Subscription orders/pricing"}, false},
		"a warning about it hides nothing":     {Problem{Object: "Function orders/pricing", Warning: true}, false},
		"a warning about a file hides nothing": {Problem{Warning: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.problem.Concerns("Function", "orders", "pricing"))
		})
	}
}

// BenchmarkRead reads the sample, first including the compilation of the CRDs, then without.
func BenchmarkRead(b *testing.B) {
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := Read("../../samples/orders"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		reader := NewReader()
		for b.Loop() {
			if _, _, err := reader.Read("../../samples/orders"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
