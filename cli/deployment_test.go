package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/cli/deploy"
	"github.com/rouse-run/rouse/cli/exit"
)

const (
	pricingYAML = `apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: pricing}
spec:
  runtime: nodejs22
  source: {inline: {source: "module.exports = {main: () => 1}"}}
`
	configYAML = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: prices}\ndata: {tea: '280'}\n"
	secretYAML = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {user: shop, password: hunter2}\n"
)

func (c *testCluster) subscriptionYAML() string {
	return `apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {name: orders}
spec: {source: shop, types: [order.received], sink: "http://pricing.` + c.namespace + `.svc.cluster.local"}
`
}

func (c *testCluster) orders(t *testing.T) string {
	t.Helper()
	return writeFolder(t, map[string]string{
		"pricing.yaml": pricingYAML, "orders.yaml": c.subscriptionYAML(), "prices.yaml": configYAML, "db.yaml": secretYAML,
		".env": "TOKEN=hunter3\n", "secrets.local.yaml": strings.ReplaceAll(secretYAML, "db", "local"), "README.md": "# Orders\n",
	})
}

// results returns what a command printed without what it waited for.
func results(got ran) ran {
	got.err = ""
	return got
}

func TestDeployBringsAFolderIntoAClusterAndWaitsUntilItIsReady(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.control(t, readyStatus)
	folder := c.orders(t)
	got := c.run(t, "deploy", folder)
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, strings.NewReplacer("NS", c.namespace, "  \n", "\n").Replace(
		`NAMESPACE    OBJECT                RESULT    STATE   ADDRESS
NS   secret/db             created   ready
NS   configmap/prices      created   ready
NS   function/pricing      created   ready   http://pricing.NS.svc.cluster.local
NS   subscription/orders   created   ready
`), got.out)
	require.Nil(t, c.get(t, secretYAML, "local"), "it is for this machine alone")
	fn, err := json.Marshal(c.get(t, pricingYAML, "pricing"))
	require.NoError(t, err)
	require.NotContains(t, string(fn), "hunter3")
	require.NotContains(t, got.out+got.err, "hunter2")

	again := c.run(t, "deploy", folder, "-o", "json")
	require.Equal(t, 0, again.code, again.err)
	var listed []deploy.Result
	require.NoError(t, json.Unmarshal([]byte(again.out), &listed))
	require.Len(t, listed, 4)
	for _, each := range listed {
		require.Equal(t, deploy.Unchanged, each.Action, each.Ref)
	}

	writeFile(t, folder, "pricing.yaml", strings.Replace(pricingYAML, "=> 1", "=> 2", 1))
	got = c.run(t, "deploy", folder)
	require.Equal(t, 0, got.code, got.err)
	require.Regexp(t, `function/pricing +configured +ready`, got.out)
	require.Regexp(t, `secret/db +unchanged +ready`, got.out)
}

func TestDiffShowsWhatDeployWouldChangeAndMasksSecrets(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	folder := c.orders(t)
	got := c.run(t, "diff", folder)
	require.Equal(t, 1, got.code, got.err)
	require.NotContains(t, got.err, "rouse:")
	require.Contains(t, got.out, "+++ folder/"+c.namespace+"/function/pricing\n")
	require.NotContains(t, got.out, "aHVudGVyMg", "a password")

	require.Equal(t, 0, c.run(t, "deploy", folder, "--wait=false").code)
	require.Equal(t, ran{}, results(c.run(t, "diff", folder)), "nothing differs after a deploy")

	writeFile(t, folder, "prices.yaml", strings.Replace(configYAML, "280", "300", 1))
	writeFile(t, folder, "db.yaml", strings.Replace(secretYAML, "hunter2", "hunter4", 1))
	got = c.run(t, "diff", folder)
	require.Equal(t, 1, got.code, got.err)
	require.Contains(t, got.out, "-  tea: \"280\"\n+  tea: \"300\"\n")
	require.Contains(t, got.out, "-  password: '*** (before)'\n+  password: '*** (after)'\n   user: '***'\n")
	require.NotContains(t, got.out, "function/pricing", "it does not differ")
	require.Equal(t, "280", c.get(t, configYAML, "prices").Object["data"].(map[string]any)["tea"], "nothing is applied")
}

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	got := c.run(t, "deploy", c.orders(t), "--dry-run")
	require.Equal(t, 0, got.code, got.err)
	require.Regexp(t, `function/pricing +created \(dry run\)`, got.out)
	require.Nil(t, c.get(t, pricingYAML, "pricing"))
	require.Equal(t, 2, c.run(t, "deploy", ".", "--dry-run=client").code)
}

func TestPruneDeletesOnlyWhatTheFolderDeployedBefore(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.control(t, readyStatus)
	folder := c.orders(t)
	writeFile(t, folder, "old.yaml", strings.Replace(pricingYAML, "pricing", "old", 1))
	require.Equal(t, 0, c.run(t, "deploy", folder).code)
	copied := strings.Replace(configYAML, "name: prices", "name: copied, labels: {"+deploy.Label+": "+c.label(t)+"}", 1)
	c.apply(t, copied) // the label came along with a manifest
	other := writeFolder(t, map[string]string{"other.yaml": strings.Replace(configYAML, "prices", "other", 1)})
	require.Equal(t, 0, c.run(t, "deploy", other).code)
	c.apply(t, strings.Replace(configYAML, "prices", "foreign", 1))

	writeFile(t, folder, "old.yaml", "")
	writeFile(t, folder, "db.yaml", "")
	got := c.run(t, "deploy", folder, "--prune", "--dry-run")
	require.Equal(t, 0, got.code, got.err)
	require.Regexp(t, `function/old +deleted \(dry run\)`, got.out)
	require.NotNil(t, c.get(t, pricingYAML, "old"))
	got = c.run(t, "diff", folder, "--prune")
	require.Equal(t, 1, got.code, got.err)
	require.Contains(t, got.out, "--- cluster/"+c.namespace+"/function/old\n")

	got = c.run(t, "deploy", folder, "--prune")
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.err, "deleting what the folder does not have any more: "+c.namespace+"/function/old\n")
	require.Regexp(t, `function/old +deleted`, got.out)
	require.Nil(t, c.get(t, pricingYAML, "old"))
	for _, kept := range []string{"copied", "other", "foreign", "prices"} {
		require.NotNil(t, c.get(t, configYAML, kept), kept)
	}
	require.NotNil(t, c.get(t, secretYAML, "db"), "Secrets are not pruned")
}

// label returns the label of what was deployed.
func (c *testCluster) label(t *testing.T) string {
	t.Helper()
	return c.get(t, pricingYAML, "pricing").GetLabels()[deploy.Label]
}

func TestDeployChangesNothingWhenTheClusterRefusesOneObject(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	taken := c.apply(t, strings.Replace(pricingYAML, "name: pricing", "name: taken", 1))
	folder := writeFolder(t, map[string]string{
		"a.yaml": pricingYAML, "taken.yaml": strings.NewReplacer("name: pricing", "name: taken", "=> 1", "=> 2").Replace(pricingYAML),
	})
	got := c.run(t, "deploy", folder, "--wait=false")
	require.Equal(t, exit.Refused, exit.Code(got.code), got.err)
	require.Contains(t, got.err, "/taken.yaml:1: function/taken: Apply failed with 1 conflict")
	require.Contains(t, got.err, ".spec.source.inline.source")
	require.Contains(t, got.err, "--force-conflicts")
	require.Contains(t, got.err, "rouse: the cluster refuses 1 of 2 objects: nothing was changed\n")
	require.Nil(t, c.get(t, pricingYAML, "pricing"))
	require.Equal(t, exit.Refused, exit.Code(c.run(t, "diff", folder).code))

	require.Equal(t, 0, c.run(t, "deploy", folder, "--wait=false", "--force-conflicts").code)
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(taken), taken))
	source, _, _ := unstructured.NestedString(taken.Object, "spec", "source", "inline", "source")
	require.Contains(t, source, "=> 2")
}

func TestDeployNamesTheMissingRight(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	folder := writeFolder(t, map[string]string{"a.yaml": pricingYAML})
	got := c.run(t, "deploy", folder, "--context", "limited")
	require.Equal(t, exit.Unreachable, exit.Code(got.code))
	require.Contains(t, got.err, "you may not get functions in namespace "+c.namespace+": ask for a role with that verb")

	for _, granted := range [][]string{{"get"}, {"get", "patch"}} {
		c.grant(t, granted...)
		missing := []string{"patch", "create"}[len(granted)-1]
		got = c.run(t, "deploy", folder, "--context", "limited")
		require.Equal(t, exit.Unreachable, exit.Code(got.code))
		require.Contains(t, got.err, "you may not "+missing+" functions in namespace "+c.namespace)
	}
	require.Nil(t, c.get(t, pricingYAML, "pricing"))
}

// grant gives the user of the context limited verbs on Functions.
func (c *testCluster) grant(t *testing.T, verbs ...string) {
	t.Helper()
	name := "limited-" + strings.Join(verbs, "-")
	meta := metav1.ObjectMeta{Namespace: c.namespace, Name: name}
	require.NoError(t, c.Client.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: meta,
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"serverless.kyma-project.io"}, Resources: []string{"functions"}, Verbs: verbs}},
	}))
	require.NoError(t, c.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "limited-" + c.namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}))
}

func TestDeployIntoAClusterWithoutRouseSaysSo(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
	}))
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test"}
	config.CurrentContext = "test"
	path := t.TempDir() + "/kubeconfig"
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	got := run(t, "", "deploy", writeFolder(t, map[string]string{"a.yaml": pricingYAML}), "--kubeconfig", path)
	require.Equal(t, exit.Unreachable, exit.Code(got.code))
	require.Contains(t, got.err, "has no Functions: Rouse is not installed there")
}

func TestAFunctionThatDoesNotBecomeReadyEndsTheDeployWithItsReason(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.control(t, func(object *unstructured.Unstructured) map[string]any {
		if object.GetKind() == "Function" {
			return stalledStatus(object, "the handler does not load:\n\x1b[31mSyntaxError at line 1")
		}
		return readyStatus(object)
	})
	folder := c.orders(t)
	got := c.run(t, "deploy", folder)
	require.Equal(t, 1, got.code)
	require.Contains(t, got.err, "rouse: not everything is ready:\n  function/pricing failed:\n    the handler does not load:\n    �[31mSyntaxError at line 1\n"+
		"    rouse describe function pricing -n "+c.namespace+" shows more\n")
	require.Contains(t, got.err, "deploy again once that is solved\n")
	require.Regexp(t, `function/pricing +created +failed`, got.out)

	slow := newTestCluster(t)
	got = slow.run(t, "deploy", slow.orders(t), "--timeout", "10ms")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.err, "not everything is ready after --timeout:\n  function/pricing in progress:\n    its controller has not looked at it yet\n")
}

func TestADeployThatWasCutOffIsMendedByTheNextOne(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	folder := c.orders(t)
	ctx, interrupt := context.WithCancel(t.Context())
	c.control(t, func(object *unstructured.Unstructured) map[string]any {
		if ctx.Err() == nil {
			interrupt() // while it waits, or still applies the others
			return nil
		}
		return readyStatus(object)
	})
	var out, errs strings.Builder
	code := Main(ctx, []string{"deploy", folder, "--kubeconfig", c.kubeconfig}, Streams{In: strings.NewReader(""), Out: &out, Err: &errs, ProgressAfter: unhurried})
	require.Equal(t, 1, code, errs.String())

	got := c.run(t, "deploy", folder)
	require.Equal(t, 0, got.code, got.err)
	require.Regexp(t, `subscription/orders +\S+ +ready`, got.out)
	require.Equal(t, ran{}, results(c.run(t, "diff", folder)))
}

func TestOfTwoDeploysAtATimeTheLaterCounts(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.control(t, func(object *unstructured.Unstructured) map[string]any {
		if object.GetGeneration() == 1 { // another one comes before the controller
			_ = unstructured.SetNestedField(object.Object, "module.exports = {main: () => 9}", "spec", "source", "inline", "source")
			_ = c.Client.Update(context.Background(), object) // again at the next tick
		}
		return nil
	})
	got := c.run(t, "deploy", writeFolder(t, map[string]string{"a.yaml": pricingYAML}))
	require.Equal(t, 1, got.code)
	require.Contains(t, got.err, "function/pricing failed:\n    superseded by generation 2: somebody has changed it meanwhile\n")
}

func TestAFolderIsRecognizedByItsPathOrItsName(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	here := writeFolder(t, map[string]string{"a.yaml": configYAML, "b.yaml": strings.Replace(configYAML, "prices", "old", 1)})
	there := writeFolder(t, map[string]string{"a.yaml": configYAML})
	require.Equal(t, 0, c.run(t, "deploy", here).code)
	got := c.run(t, "deploy", there, "--prune")
	require.Equal(t, 0, got.code, got.err)
	require.Regexp(t, `configmap/prices was deployed from \S+ before, and is from \S+ now`, got.err)
	require.NotNil(t, c.get(t, configYAML, "old"), "it is of another folder")

	require.Equal(t, 0, c.run(t, "deploy", here, "--name", "shop").code)
	require.Equal(t, 0, c.run(t, "deploy", there, "--name", "shop", "--prune").code)
	require.Nil(t, c.get(t, configYAML, "old"))
}

func TestDeleteTakesTheObjectsOfAFolderOutOfACluster(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	folder := c.orders(t)
	writeFile(t, folder, "old.yaml", strings.Replace(pricingYAML, "pricing", "old", 1))
	require.Equal(t, 0, c.run(t, "deploy", folder, "--wait=false").code)
	writeFile(t, folder, "old.yaml", "")

	got := c.run(t, "delete", folder, "--dry-run")
	require.Equal(t, 0, got.code, got.err)
	require.NotNil(t, c.get(t, pricingYAML, "pricing"))
	got = c.run(t, "delete", folder, "-o", "name")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, "subscription/orders\nfunction/pricing\nconfigmap/prices\nsecret/db\n", got.out)
	require.NotNil(t, c.get(t, pricingYAML, "old"))
	got = c.run(t, "delete", folder, "--prune", "-o", "name")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, "function/old\n", got.out)
	got = c.run(t, "delete", folder)
	require.Equal(t, ran{}, results(got))
	require.Contains(t, got.err, "the cluster has none of the folder's objects\n")
}

func TestANamespaceOfTheFolderIsCreatedAndNeverDeleted(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	made := c.namespace + "-made"
	folder := writeFolder(t, map[string]string{
		"namespace.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + made + "}\n",
		"prices.yaml":    strings.Replace(configYAML, "name: prices", "name: prices, namespace: "+made, 1),
		// Plain files with other kinds alone are not read; what a kustomization lists is.
		"kustomization.yaml": "resources: [namespace.yaml, prices.yaml]\n",
	})
	got := c.run(t, "deploy", folder, "--dry-run")
	require.Equal(t, 0, got.code, got.err)
	require.Regexp(t, `configmap/prices +created`, got.out)
	got = c.run(t, "deploy", folder, "-o", "name")
	require.Equal(t, ran{out: "namespace/" + made + "\nconfigmap/prices\n"}, results(got))
	require.Equal(t, ran{}, results(c.run(t, "diff", folder)))
	require.Equal(t, ran{out: "configmap/prices\n"}, results(c.run(t, "delete", folder, "-o", "name")))
	require.Equal(t, 0, c.run(t, "deploy", folder, "--dry-run").code, "the namespace is still there")
	require.Equal(t, exit.Usage, exit.Code(c.run(t, "deploy", folder, "-n", c.namespace).code), "-n contradicts the folder")
}

func TestWhatIsWrongWithAFolderIsSaidBeforeTheClusterIsAsked(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"two Functions of one name": {map[string]string{"a.yaml": pricingYAML, "b.yaml": pricingYAML}, "b.yaml:3: Function " + c.namespace + "/pricing: is already in"},
		"no object":                 {map[string]string{"README.md": "#"}, "there is nothing to deploy in"},
		"a misspelt field":          {map[string]string{"a.yaml": strings.Replace(pricingYAML, "runtime:", "runtme:", 1)}, `unknown field "spec.runtme"`},
	} {
		got := c.run(t, "deploy", writeFolder(t, tc.files))
		require.Equal(t, exit.Usage, exit.Code(got.code), name)
		require.Contains(t, got.err, tc.want, name)
	}
	got := run(t, "", "deploy", ".")
	require.Equal(t, exit.Usage, exit.Code(got.code))
	require.Contains(t, got.err, "this is for a cluster: name one with --context")
}
