//go:build e2e

package features

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/framework/sources"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

// noticed is the maximum delay until a moved branch is detected: 30 seconds with jitter, plus the duration of the
// check.
const noticed = 40 * time.Second

func nodeHandler(answer string) string {
	return fmt.Sprintf("module.exports.main = () => '%s'\n", answer)
}

func pythonHandler(answer string) string {
	return fmt.Sprintf("def main(event, context):\n    return '%s'\n", answer)
}

func TestFunctionsComeFromGitByHTTPAndSSH(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	server, err := sources.Start(t.Context(), cluster, namespace)
	require.NoError(t, err)
	repository, err := server.Repository(t.Context(), "shop", true)
	require.NoError(t, err)
	first, err := repository.Commit(t.Context(), "main", map[string]string{"price/handler.py": pythonHandler("tagged"), "README.md": "shop"})
	require.NoError(t, err)
	require.NoError(t, repository.Tag(t.Context(), "v1", first))
	second, err := repository.Commit(t.Context(), "main", map[string]string{"handler.js": nodeHandler("by its commit")})
	require.NoError(t, err)
	_, err = repository.Commit(t.Context(), "main", map[string]string{"handler.js": "this is not JavaScript"})
	require.NoError(t, err)

	manifest := framework.Secret("basic", nil, map[string]string{"username": sources.User, "password": sources.Password}) + "---\n" +
		framework.Secret("key", nil, map[string]string{"key": server.PrivateKey}) + "---\n" +
		framework.Function{Name: "tagged", Runtime: "python312", Git: &framework.Git{
			URL: repository.HTTP(), Reference: "v1", BaseDir: "/price/", AuthType: "basic", Secret: "basic",
		}}.YAML() + "---\n" +
		framework.Function{Name: "pinned", Runtime: "nodejs22", Git: &framework.Git{
			URL: repository.SSH(), Reference: second, BaseDir: "/", AuthType: "key", Secret: "key",
		}}.YAML()
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, manifest))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "tagged", "tagged", built))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "pinned", "by its commit", built))
}

func TestMovedBranchIsDetectedAndABrokenOneDoesNoHarm(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	server, err := sources.Start(t.Context(), cluster, namespace)
	require.NoError(t, err)
	repository, err := server.Repository(t.Context(), "moving", false)
	require.NoError(t, err)
	updates, err := cluster.RecordReasons(t.Context(), namespace, "ConfigurationReady", "SourceUpdated")
	require.NoError(t, err)
	commit := func(text string) (hash string) {
		t.Helper()
		hash, err := repository.Commit(t.Context(), "main", map[string]string{"handler.js": text})
		require.NoError(t, err)
		return hash
	}
	lookNow := func(value string) {
		t.Helper()
		require.NoError(t, cluster.Annotate(t.Context(), namespace, "moving", map[string]string{"rouse.run/check-git": value}))
	}
	commit(nodeHandler("one"))
	function := framework.Function{Name: "moving", Runtime: "nodejs22", Git: &framework.Git{URL: repository.HTTP(), Reference: "main", BaseDir: "/"}}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "moving", "one", built))

	second := commit(nodeHandler("two"))
	moved := time.Now()
	require.NoError(t, updates.Await(t.Context(), second, noticed))
	t.Logf("a moved branch was noticed after %s", time.Since(moved).Round(time.Second))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "moving", "two", built))

	broken := commit("const broken = ;\n")
	moved = time.Now()
	lookNow("1")
	require.NoError(t, updates.Await(t.Context(), broken, 5*time.Second))
	t.Logf("when asked to look, after %s", time.Since(moved).Round(100*time.Millisecond))
	requireFailure(t, cluster, namespace, "moving", "BuildReady", "handler.js", "SyntaxError")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "moving", "two", 10*time.Second), "the previous version does not serve")

	commit(nodeHandler("three"))
	lookNow("2")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "moving", "three", built))
}

func TestUnreadableRepositoryIsReportedWithTheRemedy(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	server, err := sources.Start(t.Context(), cluster, namespace)
	require.NoError(t, err)
	stranger, err := sources.NewKey()
	require.NoError(t, err)
	repository, err := server.Repository(t.Context(), "closed", true)
	require.NoError(t, err)
	_, err = repository.Commit(t.Context(), "main", map[string]string{"handler.js": nodeHandler("never served")})
	require.NoError(t, err)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace,
		framework.Secret("right", nil, map[string]string{"username": sources.User, "password": sources.Password})+"---\n"+
			framework.Secret("wrong", nil, map[string]string{"username": sources.User, "password": "guessed"})+"---\n"+
			framework.Secret("stranger", nil, map[string]string{"key": stranger})))

	cases := map[string]struct {
		git  framework.Git
		says []string
	}{
		"no-password":    {framework.Git{URL: repository.HTTP()}, []string{"spec.source.gitRepository.auth"}},
		"wrong-password": {framework.Git{URL: repository.HTTP(), AuthType: "basic", Secret: "wrong"}, []string{"authentication failed", "Correct the credentials"}},
		"no-secret":      {framework.Git{URL: repository.HTTP(), AuthType: "basic", Secret: "nowhere"}, []string{"nowhere"}},
		"wrong-key":      {framework.Git{URL: repository.SSH(), AuthType: "key", Secret: "stranger"}, []string{"authentication failed", "Correct the credentials"}},
		"no-repository":  {framework.Git{URL: repository.HTTP() + "x", AuthType: "basic", Secret: "right"}, []string{"there is no repository", "closed.gitx"}},
		"no-reference":   {framework.Git{URL: repository.HTTP(), AuthType: "basic", Secret: "right", Reference: "gone"}, []string{`"gone"`, "spec.source.gitRepository.reference"}},
		"unknown-signer": {framework.Git{URL: repository.HTTPS(), AuthType: "basic", Secret: "right"}, []string{"certificate", "CA bundle"}},
	}
	for name, tc := range cases {
		tc.git.Reference, tc.git.BaseDir = cmp.Or(tc.git.Reference, "main"), "/"
		function := framework.Function{Name: name, Runtime: "nodejs22", Git: &tc.git}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	for name, tc := range cases {
		requireFailure(t, cluster, namespace, name, "ConfigurationReady", tc.says...)
	}
}

func TestPrivatePackagesNeedThePasswordOfTheirRegistry(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	server, err := sources.Start(t.Context(), cluster, namespace)
	require.NoError(t, err)
	require.NoError(t, server.PublishNPM(t.Context(), "greeting", map[string]string{"index.js": "module.exports = 'hello from npm'"}))
	require.NoError(t, server.PublishWheel(t.Context(), "shop_greeting", "TEXT = 'hello from a wheel'\n"))
	config := func(npmrc, pipConf string) string {
		return framework.Secret("serverless-package-registry-config", nil, map[string]string{".npmrc": npmrc, "pip.conf": pipConf})
	}
	manifest := config(server.NPMRCWithoutPassword(), "[global]\n") + "---\n" +
		framework.Function{
			Name: "private-npm", Runtime: "nodejs22", Dependencies: `{"dependencies":{"@shop/greeting":"1.0.0"}}`,
			Source: "module.exports.main = () => require('@shop/greeting')",
		}.YAML() + "---\n" +
		framework.Function{
			Name: "private-wheel", Runtime: "python312", Dependencies: "shop-greeting==1.0.0\n",
			Source: "import shop_greeting\ndef main(event, context):\n    return shop_greeting.TEXT\n",
		}.YAML()
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, manifest))
	requireFailure(t, cluster, namespace, "private-npm", "BuildReady", "refuses access", "serverless-package-registry-config")
	requireFailure(t, cluster, namespace, "private-wheel", "BuildReady", "shop-greeting", "serverless-package-registry-config")

	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, config(server.NPMRC(), server.PipConf())))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "private-npm", "hello from npm", built))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "private-wheel", "hello from a wheel", built))
}

func TestACommitIsReadyByKubectlWaitAndNeverDrifts(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	function := framework.Function{
		Name: "committed", Runtime: "nodejs22", Asleep: true, Max: 1, Annotations: framework.Fast(), Source: `module.exports.main = () => 'committed'`,
	}
	subscription := framework.Subscription{Name: "committed", Namespace: namespace, Type: "commit.made.v1", Sink: "committed"}
	commit := gitops.NewCommit(t, namespace, function.YAML(), subscription.YAML())
	require.NoError(t, commit.Apply(t.Context(), cluster.WithWatch))
	kubectlWait(t, namespace, "--for=condition=Ready", "function/committed", "subscription/committed")
	requireHealthy(t, cluster, commit)

	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "committed", 0, asleep))
	kubectlWait(t, namespace, "--for=condition=Ready", "function/committed")
	commit.RequireNoDrift(t, cluster.WithWatch, 6, time.Second, func(round int) {
		if round == 1 { // it wakes and sleeps meanwhile
			publishMany(t, cluster, "commit.made.v1", "commit", 1)
		}
	})
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "committed", 0, asleep))
	commit.RequireQuiet(t, cluster.WithWatch, 4, time.Second)

	function.Dependencies, subscription.Type = `{"dependencies": {"lodash" "4.17.21"}}`, "one"
	broken := gitops.NewCommit(t, namespace, function.YAML(), subscription.YAML())
	require.NoError(t, broken.Apply(t.Context(), cluster.WithWatch))
	kubectlWait(t, namespace, "--for=condition=Stalled", "function/committed", "subscription/committed")
	kubectlWait(t, namespace, "--for=condition=Ready=false", "function/committed", "subscription/committed")
	for i, says := range []string{"It has to be a package.json", "must have minimum 2 segments"} {
		health, message := healthOf(t, cluster, broken[i])
		require.Equal(t, gitops.Health{Kstatus: "Failed", Argo: "Degraded"}, health)
		require.Contains(t, message, says, "the message must name the correction")
	}

	require.NoError(t, commit.Apply(t.Context(), cluster.WithWatch))
	kubectlWait(t, namespace, "--for=condition=Ready", "function/committed", "subscription/committed")
	requireHealthy(t, cluster, commit)
}

// kubectlWait runs kubectl wait like a pipeline.
func kubectlWait(t *testing.T, namespace string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 7*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "kubectl", append([]string{"wait", "--namespace", namespace, "--timeout=6m"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

func requireHealthy(t *testing.T, cluster *framework.Cluster, commit gitops.Commit) {
	t.Helper()
	for _, object := range commit {
		health, message := healthOf(t, cluster, object)
		require.Equal(t, gitops.Health{Kstatus: "Current", Argo: "Healthy"}, health, message)
	}
}

func healthOf(t *testing.T, cluster *framework.Cluster, object *unstructured.Unstructured) (health gitops.Health, message string) {
	t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(object), live))
	return gitops.HealthOf(t, live)
}

// renewed is the maximum delay until the kubelet updates the files of a Secret.
const renewed = 2 * time.Minute

// A Secret in the format of the BTP service operator, mounted by the Function.
func TestRotatedSecretOfAServiceReachesItsFunction(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	function := framework.Function{
		Name: "paying", Runtime: "nodejs22",
		Source: `const fs = require('fs')
const root = process.env.SERVICE_BINDING_ROOT
const read = key => fs.readFileSync(root + '/bank/' + key, 'utf8')
const atStart = read('password')
module.exports.main = () => [root, JSON.parse(read('.metadata')).credentialProperties[0].name, atStart, read('password')].join(' ')`,
		Spec: map[string]any{"secretMounts": []any{map[string]any{"secretName": "bank", "mountPath": "/bindings/bank"}}},
	}
	rotate := func(password string) {
		t.Helper()
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, framework.Secret("bank", nil, map[string]string{
			"password": password, "type": "payment", "label": "payment", "plan": "free",
			".metadata": `{"metaDataProperties":[{"name":"type","format":"text"}],"credentialProperties":[{"name":"password","format":"text"}]}`,
		})))
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	missing, err := cluster.AwaitMessage(t.Context(), namespace, "paying", "Running", "Unknown", time.Minute,
		`Secret "bank" not found, which spec.secretMounts mounts at /bindings/bank`)
	require.NoError(t, err)
	t.Log(missing)

	rotate("one")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "paying", "/bindings password one one", 3*time.Minute))
	pods := podsOf(t, cluster, namespace, "paying")

	began := time.Now()
	rotate("two")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "paying", "/bindings password one two", renewed))
	t.Logf("the file was renewed after %s", time.Since(began).Round(time.Second))
	require.Equal(t, pods, podsOf(t, cluster, namespace, "paying"), "nothing restarts by itself")

	require.NoError(t, cluster.Annotate(t.Context(), namespace, "paying", map[string]string{"rouse.run/restart-on-change": "true"}))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "paying", "/bindings password two two", time.Minute))
	began = time.Now()
	rotate("three")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "paying", "/bindings password three three", time.Minute))
	t.Logf("new pods had the Secret after %s", time.Since(began).Round(time.Second))
}

// The projector of servicebinding.io's runtime changes the Deployment of a Function that sleeps, is changed and wakes.
func TestAServiceBindingStaysInTheFunctionItIsMadeFor(t *testing.T) {
	t.Parallel()
	for name, webhook := range map[string]bool{"by updates": false, "by updates and its webhook": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, namespace := connect(t)
			runtime, err := cluster.StartBindingRuntime(t.Context(), t.TempDir(), namespace, webhook)
			require.NoError(t, err)
			if webhook && !runtime.Hooked {
				t.Skip("the API server of this cluster cannot reach a webhook of this machine")
			}
			bindWhileItSleepsAndChanges(t, cluster, namespace)
		})
	}
}

func bindWhileItSleepsAndChanges(t *testing.T, cluster *framework.Cluster, namespace string) {
	t.Helper()
	function := framework.Function{Name: "bound", Runtime: "nodejs22"}
	source := func(version string) string {
		return fmt.Sprintf(`const fs = require('fs')
const file = process.env.SERVICE_BINDING_ROOT + '/bank/user'
module.exports.main = () => ['%s', fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : 'unbound', process.env.BANK_PASSWORD ?? 'none'].join(' ')`, version)
	}
	function.Source = source("v1")
	kind := "rouse.e2e.bound." + namespace
	sleeper(t, cluster, namespace, kind, function)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace,
		framework.Secret("bank", nil, map[string]string{"user": "clerk", "password": "sesame"})+"---\n"+serviceBinding))
	require.NoError(t, awaitBound(t.Context(), cluster, namespace, true))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "bound", 0, time.Minute), "a binding wakes nothing")
	requireQuiet(t, cluster, namespace)

	require.NoError(t, cluster.Annotate(t.Context(), namespace, "bound", map[string]string{"rouse.run/cooldown-period": "600"}))
	publishMany(t, cluster, kind, "wake", 1)
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "bound", "v1 clerk sesame", time.Minute))

	function.Annotations = map[string]string{"rouse.run/polling-interval": "1", "rouse.run/cooldown-period": "600"}
	function.Source, function.Asleep = source("v2"), true
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "bound", "v2 clerk sesame", time.Minute))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "bound", "Running", "True", time.Minute))
	requireQuiet(t, cluster, namespace)

	claiming := function
	claiming.Spec = map[string]any{"env": []any{map[string]any{
		"name": "OWN", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "bank", "key": "password"}},
	}}}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, claiming.YAML()))
	refused, err := cluster.AwaitMessage(t.Context(), namespace, "bound", "ConfigurationReady", "False", time.Minute,
		"The variable OWN takes a key of the Secret bank, which a ServiceBinding projects")
	require.NoError(t, err)
	t.Log(refused)
	requireQuiet(t, cluster, namespace)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "bound", "ConfigurationReady", "True", time.Minute))

	binding := &unstructured.Unstructured{}
	binding.SetGroupVersionKind(schema.GroupVersionKind{Group: "servicebinding.io", Version: "v1", Kind: "ServiceBinding"})
	binding.SetNamespace(namespace)
	binding.SetName("bank")
	require.NoError(t, cluster.Delete(t.Context(), binding))
	require.NoError(t, awaitBound(t.Context(), cluster, namespace, false))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "bound", "v2 unbound none", time.Minute))
	requireQuiet(t, cluster, namespace)
	require.NoError(t, framework.Await(t.Context(), time.Minute, "the ServiceBinding to be gone", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKeyFromObject(binding), binding)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}))
}

const serviceBinding = `
apiVersion: servicebinding.io/v1
kind: ServiceBinding
metadata:
  name: bank
spec:
  service: {apiVersion: v1, kind: Secret, name: bank}
  workload: {apiVersion: apps/v1, kind: Deployment, name: bound, containers: [function]}
  env:
    - {name: BANK_PASSWORD, key: password}
`

// awaitBound waits until the Deployment of the Function has the whole binding, or no part of it.
func awaitBound(ctx context.Context, cluster *framework.Cluster, namespace string, want bool) error {
	return framework.Await(ctx, time.Minute, fmt.Sprintf("the Deployment to be bound: %t", want), func(ctx context.Context) (bool, error) {
		deployment := &appsv1.Deployment{}
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "bound"}, deployment); err != nil {
			return false, err
		}
		pod := deployment.Spec.Template.Spec
		ofBinding := func(name string) bool { return strings.HasPrefix(name, "servicebinding-") }
		parts := []bool{
			slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return ofBinding(v.Name) }),
			slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return ofBinding(m.Name) }),
			slices.ContainsFunc(pod.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "BANK_PASSWORD" }),
		}
		if slices.Contains(parts, !want) {
			return false, errors.New("volume, mount, variable: " + fmt.Sprint(parts))
		}
		return true, nil
	})
}

// requireQuiet checks for four seconds that no controller writes to the Deployment. It does not use require.Never,
// whose last check may still run when the test has ended, and then fail it.
func requireQuiet(t *testing.T, cluster *framework.Cluster, namespace string) {
	t.Helper()
	read := func() *appsv1.Deployment {
		deployment := &appsv1.Deployment{}
		require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "bound"}, deployment))
		return deployment
	}
	before := read()
	for range 8 {
		time.Sleep(500 * time.Millisecond)
		after := read()
		require.Equal(t, before.Spec, after.Spec, "the Deployment was written to")
		require.Equal(t, before.Generation, after.Generation, "the Deployment was written to and back, or its annotations were")
	}
}

// podsOf returns the UIDs of the Function's pods.
func podsOf(t *testing.T, cluster *framework.Cluster, namespace, function string) []string {
	t.Helper()
	pods := &corev1.PodList{}
	require.NoError(t, cluster.List(t.Context(), pods, client.InNamespace(namespace), client.MatchingLabels{framework.FunctionLabel: function}))
	var found []string
	for i := range pods.Items {
		found = append(found, string(pods.Items[i].UID))
	}
	slices.Sort(found)
	return found
}
