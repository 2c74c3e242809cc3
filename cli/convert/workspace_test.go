package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// workspaceOf writes a config.yaml with the files beside it, and returns its path.
func workspaceOf(t *testing.T, config string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["config.yaml"] = config
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return filepath.Join(dir, "config.yaml")
}

func TestAWorkspaceOfKymasCommandLineBecomesManifests(t *testing.T) {
	t.Parallel()
	path := workspaceOf(t, `name: price
namespace: shop
labels: {team: shop}
runtime: python39
runtimeLabels: {tier: front}
runtimeAnnotations: {a: b}
source:
  sourceType: inline
  sourcePath: src
resource:
  limits: {cpu: 100m, memory: 128Mi}
  requests: {cpu: 50m, memory: 64Mi}
env:
- {name: CURRENCY, value: EUR}
- {name: KEY, valueFrom: {secretKeyRef: {name: bank, key: key}}}
subscriptions:
- {name: orders, typeMatching: exact, source: "", types: [sap.kyma.custom.shop.order.created.v1]}
- name: returns
  protocol: ""
  filter:
    filters:
    - eventSource: {property: source, type: exact, value: ""}
      eventType: {property: type, type: exact, value: sap.kyma.custom.shop.order.returned.v1}
apiRules:
- name: price
  gateway: kyma-system/kyma-gateway
  service: {host: price.example.com, port: 80}
  rules:
  - {path: /.*, methods: [GET], accessStrategies: [{handler: allow}]}
schemaVersion: v1
`, map[string]string{"src/handler.py": "def main(event, context):\n    return 1\n", "src/requirements.txt": "six==1.16.0\n"})
	out, errs, err := execute(t, "", "-f", path)
	require.NoError(t, err, errs)
	golden(t, "workspaces/inline.yaml", out)
	golden(t, "workspaces/inline.txt", strings.ReplaceAll(errs, filepath.Dir(path)+"/", ""))
}

func TestAWorkspaceInGitNamesItsRepository(t *testing.T) {
	t.Parallel()
	path := workspaceOf(t, `name: price
namespace: shop
runtime: nodejs20
source:
  sourceType: git
  url: https://git.example.com/shop.git
  reference: main
  baseDir: price
  credentialsSecretName: git
  credentialsType: key
`, map[string]string{})
	out, errs, err := execute(t, "", "-f", path)
	require.NoError(t, err, errs)
	golden(t, "workspaces/git.yaml", out)
}

func TestAWorkspaceThatCannotBeWrittenIsRefusedByName(t *testing.T) {
	t.Parallel()
	const inline = "name: price\nruntime: nodejs20\nsource: {sourceType: inline%s}\n"
	for name, tc := range map[string]struct{ config, want string }{
		"a file of this machine":    {strings.Replace(inline, "%s", ", sourcePath: /etc, sourceHandlerName: passwd", 1), "passwd is not in the folder of the file"},
		"a file above":              {strings.Replace(inline, "%s", ", sourcePath: .., sourceHandlerName: handler.js", 1), "handler.js is not in the folder"},
		"a link to such a file":     {strings.Replace(inline, "%s", ", sourceHandlerName: link.js", 1), "source.sourceHandlerName:"},
		"no handler":                {strings.Replace(inline, "%s", ", sourceHandlerName: none.js", 1), "none.js"},
		"an unknown field":          {strings.Replace(inline, "%s", "", 1) + "apiRule: {}\n", "apiRule"},
		"a filter by a prefix":      {strings.Replace(inline, "%s", "", 1) + "subscriptions: [{name: s, filter: {filters: [{eventType: {type: prefix, value: a}}]}}]\n", "subscription s: a filter is prefix"},
		"filters of two sources":    {strings.Replace(inline, "%s", "", 1) + "subscriptions: [{name: s, filter: {filters: [{eventSource: {value: a}, eventType: {value: x}}, {eventSource: {value: b}, eventType: {value: y}}]}}]\n", "make a subscription for each"},
		"a subscription of nothing": {strings.Replace(inline, "%s", "", 1) + "subscriptions: [{name: s}]\n", "it has no types"},
	} {
		path := workspaceOf(t, tc.config, map[string]string{"handler.js": "exports.main = () => 1\n"})
		require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(filepath.Dir(path), "link.js")))
		out, _, err := execute(t, "", "-f", path)
		require.ErrorContains(t, err, tc.want, name)
		require.Empty(t, out, name)
	}
	_, _, err := execute(t, strings.Replace(inline, "%s", "", 1), "-f", "-")
	require.ErrorContains(t, err, "name the file instead of standard input")
}
