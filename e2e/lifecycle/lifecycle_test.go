//go:build e2e

package lifecycle

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/framework/sources"
)

const (
	release = "rouse"
	chart   = "../../charts/rouse"
	always  = "module.exports.main = function () { return 'here' }"
)

func TestAnUpgradeDisturbsNoFunction(t *testing.T) {
	cluster, namespace := start(t)
	stop := make(chan struct{})
	asked, failed, done := new(atomic.Int64), new(atomic.Int64), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			status, _, err := cluster.Request(t.Context(), http.MethodGet, namespace, "here", "", nil, nil)
			if asked.Add(1); err != nil || status != http.StatusOK {
				failed.Add(1)
			}
		}
	}()
	helm(t, "upgrade", release, chart, "--reuse-values", "--set", "eventbridge.replicas=1", "--wait", "--timeout", "3m")
	close(stop)
	<-done
	t.Logf("%d requests during the upgrade, %d failed", asked.Load(), failed.Load())
	require.Positive(t, asked.Load())
	require.Zero(t, failed.Load())
}

// A Function's image is deleted some time after the Function, and its space is freed; images in use stay.
func TestUnusedImagesAreDeletedFromTheRegistry(t *testing.T) {
	cluster, namespace := start(t)
	helm(t, "upgrade", release, chart, "--reuse-values", "--wait", "--timeout", "3m", "--set",
		"registry.internal.garbageCollection.interval=2s,registry.internal.garbageCollection.grace=20s")
	for name, dependency := range map[string]string{"stays": "is-odd", "goes": "is-even"} {
		function := framework.Function{
			Name: name, Runtime: "nodejs22", Source: always, Dependencies: fmt.Sprintf(`{"dependencies":{%q:"*"}}`, dependency),
		}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	for _, name := range []string{"stays", "goes"} {
		require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, name, "Running", "True", 3*time.Minute))
	}
	gone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "goes"}}
	gone.SetGroupVersionKind(framework.FunctionGVK)
	require.NoError(t, cluster.Delete(t.Context(), gone))

	since := time.Now()
	var log string
	logOf := func(ctx context.Context, component, container string) (string, error) {
		pods, err := cluster.PodsOf(ctx, component)
		if err != nil || len(pods) == 0 {
			return "", err
		}
		return cluster.Logs(ctx, framework.System, pods[0].Name, container, 0)
	}
	require.NoError(t, framework.Await(t.Context(), 2*time.Minute, "the image to be deleted and its space freed", func(ctx context.Context) (bool, error) {
		swept, err := logOf(ctx, "registry", "proxy")
		if err != nil {
			return false, err
		}
		log, err = logOf(ctx, "controller", "controller")
		return repositoryOf(namespace, "goes").MatchString(log) && strings.Contains(swept, "swept the registry"), err
	}))
	t.Logf("after %s", time.Since(since).Round(time.Second))
	require.NotRegexp(t, repositoryOf(namespace, "stays"), log)
	// A push on a busy machine may take longer than a grace period for a test.
	helm(t, "upgrade", release, chart, "--reuse-values", "--wait", "--timeout", "3m", "--set",
		"registry.internal.garbageCollection.interval=1h,registry.internal.garbageCollection.grace=1h")
	function := framework.Function{Name: "again", Runtime: "nodejs22", Source: always, Dependencies: `{"dependencies":{"is-even":"*"}}`}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "again", "Running", "True", 3*time.Minute))
}

func TestPodsInstallTheirDependenciesWithoutARegistry(t *testing.T) {
	const source = "module.exports.main = () => 'is-number ' + require('is-number/package.json').version"
	cluster, namespace := start(t)
	helm(t, "upgrade", release, chart, "--reuse-values", "--set", "registry.internal.enabled=false", "--wait", "--timeout", "3m")
	function := framework.Function{Name: "alone", Runtime: "nodejs22", Source: source, Dependencies: `{"dependencies":{"is-number":"7.0.0"}}`}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	lost, err := cluster.AwaitMessage(t.Context(), namespace, "alone", "BuildReady", "False", time.Minute, "No container registry is configured")
	require.NoError(t, err)
	t.Log(lost)
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "alone", "is-number 7.0.0", 2*time.Minute))

	helm(t, "upgrade", release, chart, "--reuse-values", "--set", "registry.internal.enabled=true", "--wait", "--timeout", "3m")
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "alone", "BuildReady", "True", 2*time.Minute))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "alone", "Running", "True", time.Minute))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "alone", "is-number 7.0.0", 10*time.Second))
}

// start makes a namespace with a Function that is always awake.
func start(t *testing.T) (*framework.Cluster, string) {
	t.Helper()
	cluster, err := framework.Connect()
	require.NoError(t, err)
	namespace, err := cluster.CreateNamespace(t.Context(), "lifecycle")
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		if t.Failed() {
			cluster.Dump(ctx, os.Stdout, namespace)
		}
		require.NoError(t, cluster.DeleteNamespace(ctx, namespace))
	})
	function := framework.Function{Name: "here", Runtime: "nodejs22", Source: always}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "here", "Running", "True", 2*time.Minute))
	return cluster, namespace
}

// repositoryOf matches a log's name of a Function's repository, which contains digits of the namespace's UID.
func repositoryOf(namespace, function string) *regexp.Regexp {
	return regexp.MustCompile(fmt.Sprintf(`"repository":"%s_[0-9a-f]+_%s"`, regexp.QuoteMeta(namespace), regexp.QuoteMeta(function)))
}

func helm(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "helm", append(args, "--namespace", framework.System)...)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "helm %s: %s", strings.Join(args, " "), out)
}

// leftovers lists remaining objects: those of the release, our kinds, and objects that Functions owned.
func leftovers(ctx context.Context, cluster *framework.Cluster, namespace string) ([]string, error) {
	lists, err := cluster.Kube.Discovery().ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("discover resources: %w", err)
	}
	objects, err := metadata.NewForConfig(cluster.Config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	var left []string
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", list.GroupVersion, err)
		}
		for _, resource := range list.APIResources {
			if !strings.Contains(fmt.Sprint(resource.Verbs), "list") || strings.HasPrefix(resource.Name, "events") {
				continue
			}
			items, err := objects.Resource(group.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", resource.Name, err)
			}
			for _, item := range items.Items {
				if ours(group.Group, namespace, &item) {
					left = append(left, fmt.Sprintf("%s %s/%s", resource.Name, item.Namespace, item.Name))
				}
			}
		}
	}
	return left, nil
}

func ours(group, namespace string, item *metav1.PartialObjectMetadata) bool {
	switch {
	case item.Labels["app.kubernetes.io/part-of"] == release, item.Labels["app.kubernetes.io/instance"] == release:
		return true
	case strings.HasSuffix(group, "kyma-project.io"), strings.HasSuffix(item.Name, ".kyma-project.io"):
		return true
	case item.Namespace == framework.System:
		return item.Name != "default" && item.Name != "kube-root-ca.crt" && item.Name != framework.EntranceSecret // which a test has made
	default: // objects that Kubernetes creates in every namespace
		return item.Namespace == namespace && item.Name != "default" && item.Name != "kube-root-ca.crt"
	}
}

const olderFunction = `apiVersion: serverless.kyma-project.io/v1alpha1
kind: Function
metadata: {name: older, labels: {team: shop}}
spec: {runtime: nodejs22, source: "module.exports.main = () => 'from v1alpha1'", minReplicas: 1, maxReplicas: 2}
`

const olderFromGit = `apiVersion: serverless.kyma-project.io/v1alpha1
kind: Function
metadata: {name: older-git}
spec: {runtime: nodejs22, type: git, source: code, baseDir: /, reference: main}
`

func TestFunctionsOfV1alpha1AreServedWhileTheOptionIsOn(t *testing.T) {
	cluster, namespace := start(t)
	out, err := kubectl(t, olderFunction, "apply", "--namespace", namespace, "-f", "-")
	require.Error(t, err)
	require.Contains(t, out, `no matches for kind "Function" in version "serverless.kyma-project.io/v1alpha1"`)

	const option = "functions.v1alpha1.enabled="
	helm(t, "upgrade", release, chart, "--reuse-values", "--set", option+"true", "--wait", "--timeout", "3m")
	t.Cleanup(func() {
		require.NoError(t, cluster.DeleteDefinition(context.WithoutCancel(t.Context()), "gitrepositories.serverless.kyma-project.io"))
	})
	server, err := sources.Start(t.Context(), cluster, namespace)
	require.NoError(t, err)
	repository, err := server.Repository(t.Context(), "code", false)
	require.NoError(t, err)
	_, err = repository.Commit(t.Context(), "main", map[string]string{"handler.js": "module.exports.main = () => 'from a GitRepository'"})
	require.NoError(t, err)

	require.NoError(t, framework.Await(t.Context(), time.Minute, "v1alpha1 to be served", func(context.Context) (bool, error) {
		_, err := kubectl(t, olderFunction+"---\n"+olderFromGit, "apply", "--namespace", namespace, "-f", "-")
		return err == nil, err
	}))
	missing, err := cluster.AwaitMessage(t.Context(), namespace, "older-git", "ConfigurationReady", "False", time.Minute,
		"GitRepository "+namespace+"/code is missing", "create it with spec.url")
	require.NoError(t, err)
	t.Log(missing)
	gitRepository := "apiVersion: serverless.kyma-project.io/v1alpha1\nkind: GitRepository\nmetadata: {name: code}\nspec: {url: '" + repository.HTTP() + "'}\n"
	out, err = kubectl(t, gitRepository, "apply", "--namespace", namespace, "-f", "-")
	require.NoError(t, err, out)
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "older", "from v1alpha1", 2*time.Minute))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "older-git", "from a GitRepository", 3*time.Minute))

	read := func(version, path string) string {
		out, err := kubectl(t, "", "get", "--namespace", namespace, "functions."+version+".serverless.kyma-project.io", "-o", "jsonpath={.items[*]"+path+"}")
		require.NoError(t, err, out)
		t.Logf("%s: %s", version, out)
		return out
	}
	require.Contains(t, read("v1alpha1", ".spec.source"), "from v1alpha1")
	require.Contains(t, read("v1alpha1", ".spec.source"), " code")
	require.Contains(t, read("v1alpha2", ".spec.source.inline.source"), "from v1alpha1")
	require.Contains(t, read("v1alpha2", ".spec.source.gitRepository.url"), repository.HTTP())
	out, err = kubectl(t, olderFunction, "diff", "--namespace", namespace, "-f", "-")
	require.NoError(t, err, "no drift: %s", out)

	off := []string{"upgrade", release, chart, "--namespace", framework.System, "--reuse-values", "--set", option + "false", "--wait", "--timeout", "3m"}
	answer, err := exec.CommandContext(t.Context(), "helm", off...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(answer), `2 Functions have managed fields of v1alpha1`)
	t.Logf("%s", answer)
	answer, err = exec.CommandContext(t.Context(), "bash", "-ec", stepOf(t)).CombinedOutput()
	require.NoError(t, err, "%s", answer)
	t.Logf("%s", answer)
	helm(t, off...)
	refused := ""
	require.NoError(t, framework.Await(t.Context(), time.Minute, "v1alpha1 not to be served", func(context.Context) (bool, error) {
		out, err := kubectl(t, olderFunction, "apply", "--namespace", namespace, "-f", "-")
		refused = out
		return err != nil, nil
	}))
	t.Log(refused)
	// kubectl caches the API server's discovery for a while.
	require.Regexp(t, "no matches for kind|could not find the requested resource", refused)
	require.Contains(t, read("v1alpha2", ".spec.source.inline.source"), "from v1alpha1")
	newer := framework.Function{Name: "older", Runtime: "nodejs22", Source: "module.exports.main = () => 'from v1alpha2'"}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, newer.YAML()))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "older", "from v1alpha2", 2*time.Minute))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "older-git", "from a GitRepository", time.Minute))
}

// stepOf returns the step before the end in the documentation page.
func stepOf(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/convert.md")
	require.NoError(t, err)
	_, steps, found := strings.Cut(string(page), "To end it")
	require.True(t, found)
	_, code, found := strings.Cut(steps, "```sh\n")
	require.True(t, found)
	code, _, _ = strings.Cut(code, "```")
	return code
}

func kubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "kubectl", args...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}

// It runs last, because it removes the release that the others use.
func TestUninstallLeavesNoObjectBehind(t *testing.T) {
	cluster, namespace := start(t)
	sleeper := framework.Function{Name: "sleeper", Runtime: "nodejs22", Source: always, Asleep: true, Max: 2}
	subscription := framework.Subscription{Name: "sleeper", Namespace: namespace, Type: "leave.nothing.v1", Sink: "sleeper"}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, sleeper.YAML()+"---\n"+subscription.YAML()))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "sleeper"))

	helm(t, "upgrade", release, chart, "--reuse-values", "--set", "crds.keep=false,nats.persistence.keep=false", "--wait", "--timeout", "3m")
	helm(t, "uninstall", release, "--wait", "--timeout", "5m", "--debug") // longer than its hooks may take

	require.NoError(t, framework.Await(t.Context(), 2*time.Minute, "every object to be gone", func(ctx context.Context) (bool, error) {
		left, err := leftovers(ctx, cluster, namespace)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left behind: %s", strings.Join(left, ", "))
		}
		return len(left) == 0, err
	}))
}
