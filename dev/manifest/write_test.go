package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const shop = `# the shop
apiVersion: v1
kind: ConfigMap
metadata: {name: prices}
data: {coffee: "450"}   # odd   spacing
---
# prices orders
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata:
  name: pricing
  namespace: shop
spec:
  runtime: nodejs22 # the newest
  env:
    - {name: API_KEY, value: a-secret-value}
  source:
    inline:
      # the handler
      source: |
        module.exports = {
          main: () => 1
        }
--- # the events
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {name: pricing, namespace: shop}
spec:
  sink: http://pricing.shop.svc.cluster.local
  source: store
  types: [order.received]
`

func pricing(fields map[string]any) Change {
	return Change{Kind: "Function", Namespace: "shop", Name: "pricing", Fields: fields}
}

func source(text string) map[string]any {
	return map[string]any{"spec": map[string]any{"source": map[string]any{"inline": map[string]any{"source": text}}}}
}

func shopFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(shop), 0o640))
	return dir
}

func content(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(text)
}

func TestAnEditedObjectLeavesAllOtherBytesOfItsFile(t *testing.T) {
	t.Parallel()
	dir := shopFolder(t)
	w, err := NewReader().Change(dir, []Change{pricing(source("module.exports = {\n\tmain: () => 2, \n}\n"))}, false)
	require.NoError(t, err)
	require.Empty(t, w.Problems)
	require.Equal(t, shop, content(t, dir, "shop.yaml"), "nothing is written before it is saved")
	require.Contains(t, w.Objects[0].Before, "main: () => 1")
	require.NoError(t, w.Save())
	text := content(t, dir, "shop.yaml")
	before, after, _ := strings.Cut(shop, "# prices orders\n")
	_, after, _ = strings.Cut(after, "--- # the events\n")
	require.True(t, strings.HasPrefix(text, before), text)
	require.True(t, strings.HasSuffix(text, "--- # the events\n"+after), text)
	for _, kept := range []string{"# prices orders", "# the newest", "# the handler", "{name: API_KEY, value: a-secret-value}"} {
		require.Contains(t, text, kept)
	}
	set, problems, err := Read(dir)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Equal(t, "module.exports = {\n\tmain: () => 2, \n}\n", set.Functions[0].Spec.Source.Inline.Source)
	info, err := os.Stat(filepath.Join(dir, "shop.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file is left")
}

func TestATextThatNoBlockCanHoldIsStillWrittenExactly(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"leading spaces": "   two\n  lines\n", "no line break at the end": "one\ntwo", "only blanks": "\n \n", "windows": "a\r\nb\r\n",
		"a marker of a document": "a\n---\nb\n", "a control character": "a\x1bb\nc\n", "tabs": "\ta\n\tb\n",
	} {
		dir := shopFolder(t)
		w, err := NewReader().Change(dir, []Change{pricing(source(text))}, false)
		require.NoError(t, err, name)
		require.NoError(t, w.Save(), name)
		found, err := NewReader().Find(dir, "Function", "shop", "pricing")
		require.NoError(t, err)
		require.Equal(t, text, found.Object["spec"].(map[string]any)["source"].(map[string]any)["inline"].(map[string]any)["source"], name)
		set, _, err := Read(dir)
		require.NoError(t, err)
		require.Len(t, set.Subscriptions, 1, "%s: the other documents are there", name)
	}
}

func TestFieldsAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	dir := shopFolder(t)
	subscription := func(fields map[string]any) Change {
		return Change{Kind: "Subscription", Namespace: "shop", Name: "pricing", Fields: map[string]any{"spec": fields}}
	}
	for _, paused := range []any{true, nil} {
		w, err := NewReader().Change(dir, []Change{subscription(map[string]any{"paused": paused})}, false)
		require.NoError(t, err)
		require.NoError(t, w.Save())
		set, _, err := Read(dir)
		require.NoError(t, err)
		require.Equal(t, paused == true, set.Subscriptions[0].Spec.Paused)
	}
	require.NotContains(t, content(t, dir, "shop.yaml"), "paused")
}

func TestANewFunctionAndItsSubscriptionAreAFileThatReads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fields := source("module.exports = { main: () => 1 }\n")
	fields["apiVersion"], fields["kind"] = "serverless.kyma-project.io/v1alpha2", "Function"
	fields["spec"].(map[string]any)["runtime"] = "nodejs22"
	changes := []Change{pricing(fields), {Kind: "Subscription", Namespace: "shop", Name: "pricing", Fields: map[string]any{
		"apiVersion": "eventing.kyma-project.io/v1alpha2", "kind": "Subscription",
		"spec": map[string]any{"sink": "http://pricing.shop.svc.cluster.local", "source": "store", "types": []any{"order.received"}},
	}}}
	w, err := NewReader().Change(dir, changes, true)
	require.NoError(t, err)
	require.Empty(t, w.Problems)
	require.NoError(t, w.Save())
	require.Equal(t, `apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata:
  name: pricing
  namespace: shop
spec:
  runtime: nodejs22
  source:
    inline:
      source: |
        module.exports = { main: () => 1 }
---
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata:
  name: pricing
  namespace: shop
spec:
  sink: http://pricing.shop.svc.cluster.local
  source: store
  types:
    - order.received
`, content(t, dir, "pricing.yaml"))
	again, err := NewReader().Change(dir, changes, true)
	require.NoError(t, err)
	require.Len(t, again.Problems, 2, "both are there")
	require.Equal(t, "metadata.name", again.Problems[0].Field)
	require.Error(t, again.Save())
}

func TestWhatTheAPIServerRefusesIsNamedByItsFieldAndNotWritten(t *testing.T) {
	t.Parallel()
	dir := shopFolder(t)
	w, err := NewReader().Change(dir, []Change{pricing(map[string]any{"spec": map[string]any{"runtime": "cobol"}})}, false)
	require.NoError(t, err)
	require.Len(t, w.Problems, 1)
	require.Equal(t, "spec.runtime", w.Problems[0].Field)
	require.ErrorContains(t, w.Save(), "while there are problems")
	require.Equal(t, shop, content(t, dir, "shop.yaml"))
}

func TestNothingIsWrittenThroughLinksOrOutsideOfTheFolder(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "shop.yaml"), []byte(shop), 0o600))
	change := []Change{pricing(source("module.exports = { main: () => 2 }\n"))}
	linked := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(outside, "shop.yaml"), filepath.Join(linked, "shop.yaml")))
	_, err := NewReader().Change(linked, change, false)
	require.ErrorContains(t, err, "shop.yaml is a link")

	dangling := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(outside, "absent.yaml"), filepath.Join(dangling, "pricing.yaml")))
	_, err = NewReader().Change(dangling, change, true)
	require.ErrorContains(t, err, "there is a file pricing.yaml already")

	swapped := shopFolder(t)
	w, err := NewReader().Change(swapped, change, false)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(swapped, "shop.yaml")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "shop.yaml"), filepath.Join(swapped, "shop.yaml")))
	require.ErrorContains(t, w.Save(), "shop.yaml is a link")
	require.Equal(t, shop, content(t, outside, "shop.yaml"))
}

func TestWhatIsNoPlainManifestIsEditedByHand(t *testing.T) {
	t.Parallel()
	function := strings.Split(shop, "---")[1]
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a kustomization": {map[string]string{"kustomization.yaml": "resources: [shop.yaml]\n", "shop.yaml": shop}, "a kustomization builds it"},
		"an item of a List": {map[string]string{"list.yaml": `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"serverless.kyma-project.io/v1alpha2",` +
			`"kind":"Function","metadata":{"name":"pricing","namespace":"shop"}}]}`}, "an item of a List"},
		"an anchor": {map[string]string{"a.yaml": strings.Replace(function, "source: |", "source: &code |", 1)}, "an anchor"},
	} {
		dir := t.TempDir()
		for file, text := range test.files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
		_, err := NewReader().Change(dir, []Change{pricing(source("x\n"))}, false)
		require.ErrorContains(t, err, test.want, name)
		require.ErrorContains(t, err, "by hand", name)
	}
}

func TestAFileThatWouldBeTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	_, err := NewReader().Change(shopFolder(t), []Change{pricing(source(strings.Repeat("x\n", maxWritten/2)))}, false)
	require.ErrorContains(t, err, "larger than 256 KiB")
}
