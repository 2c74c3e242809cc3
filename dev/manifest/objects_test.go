package manifest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// objects reads a folder for the namespace shop. It returns the names of its objects, and the problems with file names relative to it.
func objects(t *testing.T, dir string) (read Objects, names, problems []string) {
	t.Helper()
	read, found, err := NewReader().Objects(dir, "shop")
	require.NoError(t, err)
	for _, each := range read.Deployed {
		names = append(names, describe(each.Object))
	}
	for _, problem := range found {
		problems = append(problems, strings.ReplaceAll(problem.Error(), dir+string(filepath.Separator), ""))
	}
	return read, names, problems
}

func TestObjectsForAClusterAreAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"price.yaml":  strings.Replace(price, "spec:", "  uid: abc\nstatus: {observedGeneration: 3}\nspec:", 1),
		"orders.yaml": strings.ReplaceAll(orders, ".default.", ".shop."),
	})
	read, names, problems := objects(t, dir)
	require.Empty(t, problems)
	require.Equal(t, []string{"Subscription shop/orders", "Function shop/price"}, names)
	require.Equal(t, map[string]any{
		"apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function",
		"metadata": map[string]any{"name": "price", "namespace": "shop"},
		"spec": map[string]any{
			"runtime": "nodejs22", "source": map[string]any{"inline": map[string]any{"source": "module.exports = {\n  main: () => \"ok\",\n}\n"}},
		},
	}, read.Deployed[1].Object, "the API server sets defaults and status")
	require.Equal(t, Position{File: filepath.Join(dir, "price.yaml"), Line: 1, Column: 1}, read.Deployed[1].At)
}

func TestAClusterGetsTheConfigMapWithTheFilesOfAFolder(t *testing.T) {
	t.Parallel()
	withFiles := strings.Replace(price, "spec:", "spec:\n  annotations: {rouse.run/files: price-files}", 1)
	dir := write(t, map[string]string{
		"function.yaml": withFiles + "---\n" + strings.Replace(withFiles, "name: price", "name: stock", 1),
		"handler.js":    "module.exports = require('./lib/rates')\n", "lib/rates.js": "exports.main = () => 1\n", ".env": "PASSWORD=hunter2\n",
	})
	read, names, problems := objects(t, dir)
	require.Empty(t, problems)
	require.Equal(t, []string{"Function shop/price", "Function shop/stock", "ConfigMap shop/price-files"}, names)
	data, _, err := unstructured.NestedStringMap(read.Deployed[2].Object, "data")
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"handler.js": "module.exports = require('./lib/rates')\n", "lib..rates.js": "exports.main = () => 1\n",
	}, data)
	require.Equal(t, read.Deployed[0].At, read.Deployed[2].At)

	digest := func(read Objects, function int) string {
		digest, _, err := unstructured.NestedString(read.Deployed[function].Object, "spec", "annotations", "rouse.run/files-digest")
		require.NoError(t, err)
		return digest
	}
	require.NotEmpty(t, digest(read, 0))
	require.Equal(t, digest(read, 0), digest(read, 1))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lib", "rates.js"), []byte("exports.main = () => 2\n"), 0o600))
	changed, _, _ := objects(t, dir)
	require.NotEqual(t, digest(read, 0), digest(changed, 0), "another content is another generation")
}

func TestNothingThatIsOnlyForThisMachineGetsIntoACluster(t *testing.T) {
	t.Parallel()
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: hunter2}\n"
	dir := write(t, map[string]string{
		"price.yaml": price, ".env": "PASSWORD=hunter2\nno line\n", "secrets.local.yaml": secret, "broken.local.yaml": "kind: Function\n  a: [",
		"left/function.yaml": strings.Replace(price, "name: price", "name: left", 1), ".rouseignore": "left/\n",
	})
	read, names, problems := objects(t, dir)
	require.Empty(t, problems)
	require.Equal(t, []string{"Function shop/price"}, names)
	content, err := json.Marshal(read)
	require.NoError(t, err)
	require.NotContains(t, string(content), "hunter2")
}

func TestAKustomizationThatIncludesAFileOfThisMachineIsRefused(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"price.yaml": price, ".env": "PASSWORD=hunter2\n",
		"kustomization.yaml": "resources: [price.yaml]\nsecretGenerator:\n  - name: db\n    envs: [.env]\n",
	})
	_, _, problems := objects(t, dir)
	require.Equal(t, []string{
		".env: is only for this machine, and a kustomization includes it (take it out of the kustomization, or give it another name)",
	}, problems)
}

func TestObjectsOfOtherKindsAreLeft(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", "price.yaml": price,
		"b.yaml":             "apiVersion: v1\nkind: Service\nmetadata: {name: db}\n",
		"kustomization.yaml": "resources: [a.yaml, b.yaml, price.yaml]\n",
	})
	read, names, problems := objects(t, dir)
	require.Empty(t, problems)
	require.ElementsMatch(t, []string{"Namespace default/shop", "Function shop/price"}, names)
	require.Len(t, read.Left, 1)
	require.Equal(t, "Service", read.Left[0].GetKind())
}

func TestTwoObjectsOfOneNameInOneNamespaceAreAProblem(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"a.yaml": price, "b.yaml": strings.Replace(price, "name: price", "name: price\n  namespace: shop", 1),
		"c.yaml": strings.Replace(price, "name: price", "name: price\n  namespace: default", 1),
	})
	_, names, problems := objects(t, dir)
	require.Equal(t, []string{"Function shop/price", "Function default/price"}, names)
	require.Equal(t, []string{
		"b.yaml:4: Function shop/price: is already in a.yaml:1 (remove one of the two, or give it another name)",
	}, problems)
}

func TestAFolderWithTooManyObjectsIsRefused(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range maxObjects + 1 {
		fmt.Fprintf(&many, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c-%d}\n", i)
	}
	_, _, problems := objects(t, write(t, map[string]string{"all.yaml": many.String()}))
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "has 1001 objects, and at most 1000 can be deployed together")
}
