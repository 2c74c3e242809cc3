package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/cli/exit"
)

const filesFunction = `apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: price, namespace: shop}
spec:
  annotations: {rouse.run/files: price-files}
  runtime: nodejs22
  source: {inline: {source: "// the files"}}
`

func filesFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return dir
}

func runFiles(t *testing.T, dir string) (code int, out, notes string) {
	t.Helper()
	got := run(t, "", "files", dir)
	return got.code, got.out, got.err
}

func TestFilesWritesTheConfigMapOfAFolder(t *testing.T) {
	t.Parallel()
	dir := filesFolder(t, map[string]string{
		"function.yaml": filesFunction, "handler.js": "handler", "lib/util.js": "util", ".env": "PASSWORD=hush", "tls.key": "hush", "a.bin": "\xff\x00",
	})
	code, out, notes := runFiles(t, dir)
	require.Zero(t, code, notes)
	var config corev1.ConfigMap
	require.NoError(t, yaml.UnmarshalStrict([]byte(strings.TrimPrefix(out, "---\n")), &config))
	require.Equal(t, "shop/price-files", config.Namespace+"/"+config.Name)
	require.Equal(t, map[string]string{"handler.js": "handler", "lib..util.js": "util"}, config.Data)
	require.Equal(t, map[string][]byte{"a.bin": {0xff, 0}}, config.BinaryData)
	require.NotContains(t, out, "hush")
	_, again, _ := runFiles(t, dir)
	require.Equal(t, out, again)
}

func TestFilesSkipsWhatKustomizeGeneratesAndSharesAFolder(t *testing.T) {
	t.Parallel()
	code, out, notes := runFiles(t, filesFolder(t, map[string]string{
		"function.yaml": filesFunction, "handler.js": "handler",
		"kustomization.yaml": "resources: [function.yaml]\nconfigMapGenerator:\n- name: price-files\n  namespace: shop\n  files: [handler.js]\n" +
			"  options: {disableNameSuffixHash: true}\n",
	}))
	require.Zero(t, code, notes)
	require.Empty(t, out)
	require.Contains(t, notes, "ConfigMap shop/price-files is among the manifests")

	code, out, _ = runFiles(t, filesFolder(t, map[string]string{
		"functions.yaml": filesFunction + "---\n" + strings.Replace(filesFunction, "name: price,", "name: stock,", 1), "handler.js": "handler",
	}))
	require.Zero(t, code)
	require.Equal(t, 1, strings.Count(out, "kind: ConfigMap"))
}

func TestFilesRefusesAFolderThatCannotBeASource(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"two folders of one name": {map[string]string{
			"a/function.yaml": filesFunction, "a/handler.js": "a", "b/handler.js": "b",
			"b/function.yaml": strings.Replace(filesFunction, "name: price,", "name: stock,", 1),
		}, "name another one in spec.annotations[rouse.run/files]"},
		"a name that no key carries": {map[string]string{"function.yaml": filesFunction, "a b.js": ""}, `"a b.js" has a character`},
		"an invalid manifest":        {map[string]string{"function.yaml": strings.Replace(filesFunction, "nodejs22", "ruby", 1)}, "runtime"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, notes := runFiles(t, filesFolder(t, tc.files))
			require.Equal(t, int(exit.Usage), code)
			require.Empty(t, out)
			require.Contains(t, notes, tc.want)
		})
	}
}
