package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const folderPrice = `apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata:
  name: price
spec:
  annotations: {rouse.run/files: price-files}
  runtime: nodejs22
  source:
    inline:
      source: |
        exports.main = () => "inline"
`

func TestTheFolderBesideAManifestIsTheSourceThatItAsksFor(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"shop/function.yaml": folderPrice, "shop/handler.js": "exports.main = () => 1", "shop/lib/util.js": "", "shop/.env": "A=b", "other.js": "",
	})
	set, problems := read(t, dir)
	require.Empty(t, problems)
	require.Len(t, set.Functions, 1)
	fn := set.Functions[0]
	require.Equal(t, filepath.Join(dir, "shop"), fn.Files.Dir)
	require.False(t, fn.Files.ConfigMap)
	require.Equal(t, []string{"handler.js", "lib/util.js"}, fn.Files.Content.Names())
	require.Zero(t, fn.Source, "the handler is not in the manifest")

	require.NoError(t, os.Remove(filepath.Join(dir, "shop/handler.js")))
	set, problems = read(t, dir)
	require.Empty(t, problems)
	require.Equal(t, 11, set.Functions[0].Source.Line, "the handler is in the manifest")
}

func TestTheFilesOfAConfigMapTakePrecedenceOverTheFolder(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"function.yaml": folderPrice, "handler.js": "a", "lib/util.js": "b", "unlisted.js": "c",
		"kustomization.yaml": `resources: [function.yaml]
configMapGenerator:
- name: price-files
  files: [handler.js, lib..util.js=lib/util.js]
  options: {disableNameSuffixHash: true}
`,
	})
	set, problems := read(t, dir)
	require.Empty(t, problems)
	fn := set.Functions[0]
	require.True(t, fn.Files.ConfigMap)
	require.Equal(t, []string{"handler.js", "lib/util.js"}, fn.Files.Content.Names())
}

func TestTwoFunctionsOfOneFolderHaveTheSameFiles(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"functions.yaml": folderPrice + "---\n" + strings.Replace(folderPrice, "name: price", "name: stock", 1), "lib/util.js": "",
		"below/function.yaml": strings.Replace(folderPrice, "name: price", "name: below", 1), "below/own.js": "",
	})
	set, problems := read(t, dir)
	require.Empty(t, problems)
	require.Len(t, set.Functions, 3)
	for _, fn := range set.Functions {
		if fn.Name == "below" {
			require.Equal(t, []string{"own.js"}, fn.Files.Content.Names())
			continue
		}
		require.Equal(t, []string{"lib/util.js"}, fn.Files.Content.Names())
		require.NotZero(t, fn.Source.Line, "each has a handler of its own")
	}
}

func TestAFunctionWhoseFolderCannotBeItsSourceIsLeftOut(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"function.yaml": folderPrice, "handler.js": ""})
	require.NoError(t, os.Symlink("/etc", filepath.Join(dir, "lib")))
	set, problems := read(t, dir)
	require.Empty(t, set.Functions)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], `function.yaml:6: Function default/price: folder `)
	require.Contains(t, problems[0], `link "lib" leads out of the folder`)

	set, problems = read(t, write(t, map[string]string{"function.yaml": folderPrice, "files.yaml": "apiVersion: v1\nkind: ConfigMap\n" +
		"metadata: {name: price-files}\ndata: {lib......passwd: x}\n"}))
	require.Empty(t, set.Functions)
	require.Contains(t, problems[0], `ConfigMap default/price-files: key "lib......passwd": "lib///passwd" is no path of a file below the Function's directory`)
}

const gitPrice = `apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: price}
spec:
  runtime: nodejs22
  source:
    gitRepository: {url: "https://example.org/shop.git", baseDir: /functions/price, reference: main}
`

func TestAFunctionInAWorkingTreeOfItsRepositoryTakesTheFilesThere(t *testing.T) {
	t.Parallel()
	const commit = "0123456789012345678901234567890123456789"
	for name, tc := range map[string]struct {
		remote, function, config string
		worktree                 bool
		want                     bool
	}{
		"the same address":    {remote: "https://example.org/shop.git", want: true},
		"another protocol":    {remote: "git@example.org:shop", want: true},
		"a login":             {remote: "https://me:word@Example.org/shop.git/", want: true},
		"a second tree":       {remote: "https://example.org/shop.git", worktree: true, want: true},
		"another repository":  {remote: "https://example.org/shops.git"},
		"another host":        {remote: "https://example.com/shop.git"},
		"a path":              {remote: "/srv/shop.git"},
		"no configuration":    {config: "[remote"},
		"a commit is fetched": {remote: "https://example.org/shop.git", function: strings.Replace(gitPrice, "reference: main", "reference: \""+commit+"\"", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := tc.config
			if config == "" {
				config = "[remote \"origin\"]\n\turl = " + tc.remote + "\n"
			}
			function := tc.function
			if function == "" {
				function = gitPrice
			}
			files := map[string]string{"deploy/function.yaml": function, "functions/price/handler.js": "a", "functions/price/.gitignore": "*.log\n", "functions/price/a.log": ""}
			git := ".git/"
			if tc.worktree {
				git = "first/.git/"
				files[".git"] = "gitdir: first/.git/worktrees/second\n"
				files["first/.git/worktrees/second/commondir"] = "../..\n"
			}
			files[git+"config"] = config
			dir := write(t, files)
			set, problems := read(t, filepath.Join(dir, "deploy"))
			require.Empty(t, problems)
			fn := set.Functions[0]
			if !tc.want {
				require.Nil(t, fn.Files)
				return
			}
			require.Equal(t, dir, fn.Files.Repository)
			require.Equal(t, []string{".gitignore", "handler.js"}, fn.Files.Content.Names())
		})
	}
}

func TestAWorkingTreeThatCannotBeReadIsAWarning(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{".git/config": "[remote \"origin\"]\n\turl = https://example.org/shop.git\n", "function.yaml": gitPrice})
	set, problems := read(t, dir)
	require.Len(t, set.Functions, 1)
	require.Nil(t, set.Functions[0].Files)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "warning: function.yaml:7: Function default/price: the working tree is not used: folder ")
}

func TestKustomizeKnowsTheNameOfAConfigMapWithAHash(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"function.yaml": folderPrice, "handler.js": "a",
		"kustomization.yaml": "resources: [function.yaml]\nconfigurations: [names.yaml]\nconfigMapGenerator:\n- name: price-files\n  files: [handler.js]\n",
		"names.yaml":         "nameReference:\n- {kind: ConfigMap, version: v1, fieldSpecs: [{kind: Function, path: spec/annotations/rouse.run\\/files}]}\n",
	})
	set, problems := read(t, dir)
	require.Empty(t, problems)
	fn := set.Functions[0]
	require.True(t, fn.Files.ConfigMap)
	require.Regexp(t, `^price-files-[0-9a-z]{10}$`, fn.Spec.Annotations["rouse.run/files"])
}

func TestAConfigMapThatIsOlderThanTheFolderIsAWarning(t *testing.T) {
	t.Parallel()
	for content, warned := range map[string]bool{"new": true, "longer": true, "old": false} {
		dir := write(t, map[string]string{
			"function.yaml": folderPrice, "handler.js": content,
			"files.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: price-files}\ndata: {handler.js: old, gone.js: x}\n",
		})
		set, problems := read(t, dir)
		require.Equal(t, "old", string(set.Functions[0].Files.Content["handler.js"]))
		if !warned {
			require.Empty(t, problems)
			continue
		}
		require.Len(t, problems, 1)
		require.Contains(t, problems[0], "warning: function.yaml:6: Function default/price: handler.js is another one in the ConfigMap")
		require.Contains(t, problems[0], "write the ConfigMap again: rouse files")
	}
}
