//go:build e2e

package features

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// One handler per style. It returns the version of its interpreter, so that the log contains the versions that ran.
var handlers = map[string]string{
	"nodejs22":  "module.exports.main = function (event, context) { return 'node ' + process.version }",
	"nodejs26":  "module.exports.main = function (req, res) { res.send('node ' + process.version) }",
	"python312": "import sys\ndef main(event, context):\n    return 'python ' + sys.version.split()[0]\n",
	"python314": "import sys\ndef main():\n    return 'python ' + sys.version.split()[0]\n",
	goRuntime: "package handler\n\nimport (\n\t\"context\"\n\t\"runtime\"\n\n\t\"github.com/rouse-run/rouse/runtimes/golang/function\"\n)\n\n" +
		"func Handle(context.Context, function.Event) (any, error) { return function.Runtime() + \" \" + runtime.Version(), nil }\n",
}

func TestEveryRuntimeServes(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	for runtime, source := range handlers {
		function := framework.Function{Name: runtime, Runtime: runtime, Source: source}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	for runtime := range handlers {
		t.Run(runtime, func(t *testing.T) {
			require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, runtime, "Running", "True", 2*time.Minute))
			var answer string
			require.NoError(t, framework.Await(t.Context(), 30*time.Second, "an answer", func(ctx context.Context) (bool, error) {
				status, text, err := cluster.Request(ctx, http.MethodGet, namespace, runtime, "", nil, nil)
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("status %d: %s", status, text)
				}
				answer = text
				return err == nil, err
			}))
			require.Contains(t, answer, runtime[:4])
			require.True(t, strings.HasPrefix(digits(answer), digits(runtime)), "%s answers: %s", runtime, answer)
			t.Logf("%s answers: %s", runtime, answer)
		})
	}
}

// digits returns the digits of a version, as in a runtime's name: 312 of 3.12.1.
func digits(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

func TestAHandlerThatDoesNotLoadIsReportedWithItsError(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	for runtime, source := range map[string]string{
		"nodejs22":  "const broken = ;",
		"python312": "import nowhere_to_be_found\n",
	} {
		function := framework.Function{Name: "broken-" + runtime, Runtime: runtime, Source: source}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	for runtime, want := range map[string]string{"nodejs22": "SyntaxError", "python312": "nowhere_to_be_found"} {
		t.Run(runtime, func(t *testing.T) {
			require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "broken-"+runtime, "Running", "False", 2*time.Minute))
			conditions, err := cluster.Conditions(t.Context(), namespace, framework.FunctionGVK, "broken-"+runtime)
			require.NoError(t, err)
			require.Equal(t, "HandlerFailed", conditions["Running"].Reason)
			require.Contains(t, conditions["Running"].Message, want)
			t.Log(conditions["Running"].Message)
		})
	}
}

func TestAFunctionFollowsItsConfigMapsAndSecretsAndItsScale(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	refer := func(kind, name, key string) map[string]any {
		return map[string]any{"name": key, "valueFrom": map[string]any{kind: map[string]any{"name": name, "key": key}}}
	}
	function := framework.Function{
		Name: "configured", Runtime: "nodejs22", Annotations: map[string]string{"rouse.run/restart-on-change": "true"},
		Source: `const fs = require('fs')
const read = file => fs.readFileSync('/etc/price/' + file, 'utf8')
module.exports.main = () => [process.env.PLAIN, process.env.COLOUR, process.env.WORD, read('list')].join(' ')`,
		Spec: map[string]any{
			"env": []any{
				map[string]any{"name": "PLAIN", "value": "plain"},
				refer("configMapKeyRef", "shop", "COLOUR"), refer("secretKeyRef", "secret", "WORD"),
			},
			"secretMounts": []any{map[string]any{"secretName": "prices", "mountPath": "/etc/price"}},
		},
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace,
		framework.ConfigMap("shop", map[string]string{"COLOUR": "green"})+"---\n"+
			framework.Secret("secret", nil, map[string]string{"WORD": "sesame"})+"---\n"+
			framework.Secret("prices", nil, map[string]string{"list": "cheap"})+"---\n"+function.YAML()))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "configured", "plain green sesame cheap", time.Minute))

	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, framework.ConfigMap("shop", map[string]string{"COLOUR": "red"})))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "configured", "plain red sesame cheap", time.Minute))
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, framework.Secret("secret", nil, map[string]string{"WORD": "open"})))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "configured", "plain red open cheap", time.Minute))

	for _, replicas := range []int32{3, 1} {
		scale(t, cluster, namespace, "configured", replicas)
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "configured", replicas, time.Minute))
	}
}

// scale sets the number of replicas like kubectl scale.
func scale(t *testing.T, cluster *framework.Cluster, namespace, name string, replicas int32) {
	t.Helper()
	function, err := cluster.Function(t.Context(), namespace, name)
	require.NoError(t, err)
	body := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	require.NoError(t, cluster.SubResource("scale").Update(t.Context(), function, client.WithSubResourceBody(body)))
}

// One Function changes from version one to two, to a broken three, and back to two and one, under a constant load.
func TestVersionsChangeUnderLoadWithoutAFailedRequest(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	jobs, err := cluster.RecordJobs(t.Context())
	require.NoError(t, err)
	apply := func(source, dependency string) {
		t.Helper()
		function := framework.Function{
			Name: "changing", Runtime: "nodejs22", Replicas: 2, Source: source,
			Dependencies: fmt.Sprintf(`{"dependencies":{"is-number":"%s"}}`, dependency),
		}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	serves := func(answer string) {
		t.Helper()
		require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "changing", answer, built))
		require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "changing", "Running", "True", time.Minute))
	}
	const source = "module.exports.main = () => 'with ' + require('is-number/package.json').version"
	apply(source, "6.0.0")
	serves("with 6.0.0")
	first := versionOf(t, cluster, namespace, "changing")
	load, err := cluster.StartLoad(t.Context(), namespace, "changing")
	require.NoError(t, err)

	apply(source, "7.0.0")
	serves("with 7.0.0")

	apply("throw new Error('version three does not start')", "7.0.0")
	broken, err := cluster.AwaitMessage(t.Context(), namespace, "changing", "Running", "False", time.Minute, "version three does not start")
	require.NoError(t, err)
	t.Log(broken)
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "changing", "with 7.0.0", 10*time.Second))

	require.NoError(t, cluster.Annotate(t.Context(), namespace, "changing", map[string]string{"rouse.run/rollback-to": "previous"}))
	serves("with 7.0.0")
	require.NoError(t, cluster.Annotate(t.Context(), namespace, "changing", map[string]string{"rouse.run/rollback-to": first}))
	serves("with 6.0.0")
	require.Equal(t, first, versionOf(t, cluster, namespace, "changing"))
	require.Equal(t, 2, jobs.Of(namespace, "changing"), "going back was built")

	report, err := load.Stop(t.Context())
	require.NoError(t, err)
	t.Logf("%d requests, answers %v", report.Asked, report.Answers)
	require.Zero(t, report.Failed, "%v", report.Failures)
	require.Len(t, report.Answers, 2)
}

func TestARegistryCanBeSwitchedUnderLoadAndBack(t *testing.T) {
	t.Parallel()
	const other = "registry.kube-system.svc.cluster.local:5000"
	cluster, namespace := connect(t)
	function := framework.Function{
		Name: "moving", Runtime: "nodejs22", Source: "module.exports.main = () => 'is-number ' + require('is-number/package.json').version",
		Dependencies: `{"dependencies":{"is-number":"7.0.0"}}`,
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "moving", "is-number 7.0.0", built))
	home := servedImage(t, cluster, namespace, "moving")
	require.False(t, strings.HasPrefix(home, other), home)
	load, err := cluster.StartLoad(t.Context(), namespace, "moving")
	require.NoError(t, err)

	secret := framework.Secret("serverless-registry-config", map[string]string{"serverless.kyma-project.io/remote-registry": "config"}, map[string]string{
		"username": "anybody", "password": "anything", "serverAddress": other, "registryAddress": other,
	})
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, secret))
	awaitServedFrom(t, cluster, namespace, "moving", other)
	require.NoError(t, cluster.DeleteSecret(t.Context(), namespace, "serverless-registry-config"))
	awaitServedFrom(t, cluster, namespace, "moving", home)

	report, err := load.Stop(t.Context())
	require.NoError(t, err)
	t.Logf("%d requests", report.Asked)
	require.Zero(t, report.Failed, "%v", report.Failures)
}

// awaitServedFrom waits until all pods of a Function run an image with a prefix.
func awaitServedFrom(t *testing.T, cluster *framework.Cluster, namespace, name, image string) {
	t.Helper()
	require.NoError(t, framework.Await(t.Context(), built, name+" to run "+image, func(ctx context.Context) (bool, error) {
		deployment := &appsv1.Deployment{}
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
			return false, err
		}
		status := deployment.Status
		got := deployment.Spec.Template.Spec.Containers[0].Image
		if !strings.HasPrefix(got, image) {
			return false, fmt.Errorf("it runs %s", got)
		}
		return status.ObservedGeneration == deployment.Generation && status.UpdatedReplicas == status.Replicas && status.ReadyReplicas == 1, nil
	}))
}

func servedImage(t *testing.T, cluster *framework.Cluster, namespace, name string) string {
	t.Helper()
	deployment := &appsv1.Deployment{}
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, deployment))
	return deployment.Spec.Template.Spec.Containers[0].Image
}

func versionOf(t *testing.T, cluster *framework.Cluster, namespace, name string) string {
	t.Helper()
	function, err := cluster.Function(t.Context(), namespace, name)
	require.NoError(t, err)
	version, _, err := unstructured.NestedString(function.Object, "status", "version")
	require.NoError(t, err)
	require.NotEmpty(t, version)
	return version
}

const goRuntime = "go126"

func TestACompiledFunctionSleepsAtZeroWakesOnAnEventAndEmits(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	function := framework.Function{Name: "compiled", Runtime: goRuntime, Max: 1, ReadOnlyRoot: true, Source: framework.ReportingHandlerInGo}
	sleeper(t, cluster, namespace, "compiled.wake.v1", function)
	require.NotEmpty(t, imageOf(t, cluster, namespace, "compiled"), "it is built, although it depends on nothing")

	published := time.Now()
	keys := publishMany(t, cluster, "compiled.wake.v1", "compiled", 3)
	entries, err := cluster.AwaitLedger(t.Context(), namespace, keys, time.Minute)
	require.NoError(t, err)
	t.Logf("the handler began %s after the publish", time.UnixMilli(int64(entries[keys[0]].At)).Sub(published).Round(time.Millisecond))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "compiled", 0, asleep))
}

func TestCompiledFunctionRunsWithItsModules(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	function := framework.Function{
		Name: "uuid", Runtime: goRuntime, Dependencies: "require github.com/google/uuid v1.6.0\n",
		Source: `package handler

import (
	"io"
	"net/http"

	"github.com/google/uuid"
)

func Handle(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "uuid "+uuid.Nil.String()) }
`,
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, awaitBuilt(t.Context(), cluster, namespace, "uuid"))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "uuid", "uuid 00000000-0000-0000-0000-000000000000", 30*time.Second))
}

func TestASourceThatDoesNotCompileIsReportedWithItsLine(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	for name, source := range map[string]string{
		"unknown-name": "package handler\n\nimport \"net/http\"\n\nfunc Handle(w http.ResponseWriter, r *http.Request) { missing(w, r) }\n",
		"no-handle":    "package handler\n\nfunc Main() {}\n",
	} {
		function := framework.Function{Name: name, Runtime: goRuntime, Source: source}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	requireFailure(t, cluster, namespace, "unknown-name", "BuildReady", "handler.go:5:55: undefined: missing")
	requireFailure(t, cluster, namespace, "no-handle", "BuildReady", "there is no func Handle in handler.go")
}

// built is the timeout for a build and the start of its pods while other builds run on the same two cores.
const built = 3 * time.Minute

const lodash = `{"dependencies":{"lodash":"4.17.21"}}`

// Each response comes from the Function's package; compiled Functions would not load without their binary.
var packaged = map[string]struct{ runtime, dependencies, source, answer string }{
	"lodash": {
		runtime: "nodejs22", dependencies: lodash, answer: "lodash 4.17.21",
		source: `const _ = require('lodash'); module.exports.main = () => 'lodash ' + _.VERSION`,
	},
	"bcrypt": {
		runtime: "nodejs26", dependencies: `{"dependencies":{"bcrypt":"6.0.0"}}`, answer: "bcrypt true",
		source: `const bcrypt = require('bcrypt')
module.exports.main = (req, res) => res.send('bcrypt ' + bcrypt.compareSync('rouse', bcrypt.hashSync('rouse', 4)))`,
	},
	"requests": {
		runtime: "python312", dependencies: "requests==2.32.5\n", answer: "requests 2.32.5",
		source: "import requests\ndef main(event, context):\n    return 'requests ' + requests.__version__\n",
	},
	"markupsafe": {
		runtime: "python314", dependencies: "markupsafe==3.0.3\n", answer: "markupsafe .so",
		source: "from markupsafe import _speedups\ndef main():\n    return 'markupsafe ' + _speedups.__file__[-3:]\n",
	},
}

func TestFunctionsRunWithTheirPackages(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	for name, tc := range packaged {
		function := framework.Function{Name: name, Runtime: tc.runtime, Source: tc.source, Dependencies: tc.dependencies}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	for name, tc := range packaged {
		require.NoError(t, awaitBuilt(t.Context(), cluster, namespace, name))
		require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, name, tc.answer, 30*time.Second))
	}
}

func TestAFunctionIsBuiltOnceForTheSameDependencies(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	jobs, err := cluster.RecordJobs(t.Context())
	require.NoError(t, err)
	version := func(n int) framework.Function {
		source := fmt.Sprintf("const _ = require('lodash'); module.exports.main = () => '%d with ' + _.VERSION", n)
		return framework.Function{Name: "again", Runtime: "nodejs22", Source: source, Dependencies: lodash}
	}
	show := func(n int) {
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, version(n).YAML()))
		require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "again", fmt.Sprintf("%d with 4.17.21", n), built))
	}
	show(1)
	require.Equal(t, 1, jobs.Of(namespace, "again"))
	first := imageOf(t, cluster, namespace, "again")

	show(2)
	require.Equal(t, 1, jobs.Of(namespace, "again"), "another source was built, although the dependencies are the same")

	function, err := cluster.Function(t.Context(), namespace, "again")
	require.NoError(t, err)
	require.NoError(t, cluster.Delete(t.Context(), function))
	require.NoError(t, cluster.AwaitNoPods(t.Context(), namespace, "again", time.Minute))
	show(3)
	require.Equal(t, 2, jobs.Of(namespace, "again"), "what an earlier Function of the same name left was believed")
	require.Equal(t, first, imageOf(t, cluster, namespace, "again"), "the same image is built again")
}

func TestBuildsAboveTheLimitWaitInTheQueue(t *testing.T) {
	t.Parallel()
	const functions, slots = 7, 5
	cluster, namespace := connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	jobs, err := cluster.RecordJobs(ctx)
	require.NoError(t, err)
	var manifest strings.Builder
	for n := range functions {
		function := framework.Function{
			Name: fmt.Sprintf("queued-%d", n), Runtime: "nodejs22", Source: "module.exports.main = () => require('is-number')(7)",
			Dependencies: `{"dependencies":{"is-number":"7.0.0"}}`,
		}
		manifest.WriteString(function.YAML() + "---\n")
	}
	positions, err := cluster.RecordReasons(ctx, namespace, "BuildReady", "BuildQueued")
	require.NoError(t, err)
	require.NoError(t, cluster.ApplyYAML(ctx, namespace, manifest.String()))
	for n := range functions {
		require.NoError(t, awaitBuilt(ctx, cluster, namespace, fmt.Sprintf("queued-%d", n)))
	}
	require.LessOrEqual(t, jobs.Highest(), slots)
	said := positions.Messages()
	require.NotEmpty(t, said, "no Function said that it waits, although there are %d for %d slots", functions, slots)
	require.Regexp(t, `\b[1-9]\d*\b`, said[0], "the message must contain a position")
	t.Logf("%d builds at once at most; %s", jobs.Highest(), strings.Join(said, "; "))
}

// awaitBuilt waits until a Function runs the image of its spec.
func awaitBuilt(ctx context.Context, cluster *framework.Cluster, namespace, name string) error {
	if err := cluster.AwaitCondition(ctx, namespace, framework.FunctionGVK, name, "BuildReady", "True", built); err != nil {
		return err
	}
	return cluster.AwaitCondition(ctx, namespace, framework.FunctionGVK, name, "Running", "True", time.Minute)
}

// imageOf returns the image that was built for a Function.
func imageOf(t *testing.T, cluster *framework.Cluster, namespace, name string) string {
	t.Helper()
	function, err := cluster.Function(t.Context(), namespace, name)
	require.NoError(t, err)
	image, _, err := unstructured.NestedString(function.Object, "status", "build", "image")
	require.NoError(t, err)
	require.NotEmpty(t, image)
	return image
}

// What a namespace does not allow is said at the Function: of its pods and of its build.
func TestAPodThatANamespaceRefusesIsNamedInTheStatus(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, `
apiVersion: v1
kind: ResourceQuota
metadata: {name: small}
spec: {hard: {limits.memory: 300Mi}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: narrow}
spec: {limits: [{type: Container, max: {cpu: "1"}, default: {cpu: 100m}, defaultRequest: {cpu: 10m}}]}
`))
	profile := func(of string) map[string]any {
		return map[string]any{"resourceConfiguration": map[string]any{
			"function": map[string]any{"profile": of}, "build": map[string]any{"profile": "slow"},
		}}
	}
	fits := framework.Function{Name: "fits", Runtime: "nodejs22", Source: echoes["nodejs22"], Spec: profile("XS")}
	for _, function := range []framework.Function{
		fits,
		{Name: "large", Runtime: "nodejs22", Source: echoes["nodejs22"], Spec: profile("M")},
		{Name: "wide", Runtime: "nodejs22", Source: echoes["nodejs22"], Spec: profile("XL")},
		{Name: "built", Runtime: "nodejs22", Source: echoes["nodejs22"], Dependencies: `{"dependencies": {"left-pad": "1.3.0"}}`, Spec: profile("XS")},
	} {
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "fits", "Running", "True", 2*time.Minute))
	_, err := cluster.AwaitMessage(t.Context(), namespace, "large", "Running", "False", 2*time.Minute, "quota: small", "limits.memory=512Mi")
	require.NoError(t, err)
	_, err = cluster.AwaitMessage(t.Context(), namespace, "wide", "Running", "False", 2*time.Minute, "maximum cpu usage", "1600m")
	require.NoError(t, err)
	_, err = cluster.AwaitMessage(t.Context(), namespace, "built", "BuildReady", "Unknown", 2*time.Minute, "exceeded quota: small")
	require.NoError(t, err)

	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, `
apiVersion: v1
kind: ResourceQuota
metadata: {name: small}
spec: {hard: {limits.memory: 4Gi}}
`))
	for _, name := range []string{"large", "built"} {
		require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, name, "Running", "True", 5*time.Minute), "%s with room", name)
	}
}
