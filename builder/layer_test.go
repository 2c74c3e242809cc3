package builder

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
	"github.com/rouse-run/rouse/runtimes/language"
)

// packLayer sends a directory as Install does, and packs what comes as Push does.
func packLayer(t *testing.T, dir, place string) layer {
	t.Helper()
	entries, err := list(dir)
	require.NoError(t, err)
	var sent bytes.Buffer
	require.NoError(t, writeTar(&sent, place, entries))
	sent.WriteString(handoverEnd)
	packed, err := readLayer(&sent, place, filepath.Join(t.TempDir(), "layer"), 0)
	require.NoError(t, err)
	return packed
}

func TestALayerDependsOnNamesBytesAndTheRightToExecuteOnly(t *testing.T) {
	t.Parallel()
	pack := func(change func(dir string)) layer {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "handler.js"), commonJS)
		write(t, filepath.Join(dir, "node_modules/lodash/index.js"), "x")
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "node_modules/.bin"), 0o755))
		require.NoError(t, os.Symlink("../lodash/index.js", filepath.Join(dir, "node_modules/.bin/lodash")))
		change(dir)
		return packLayer(t, dir, "/usr/src/app/function")
	}
	handler := func(dir string) string { return filepath.Join(dir, "handler.js") }
	want := pack(func(string) {})
	for name, tc := range map[string]struct {
		change func(dir string)
		same   bool
	}{
		"the directory": {func(string) {}, true},
		"times":         {func(dir string) { require.NoError(t, os.Chtimes(handler(dir), time.Unix(1, 0), time.Unix(1, 0))) }, true},
		"who may read":  {func(dir string) { require.NoError(t, os.Chmod(handler(dir), 0o400)) }, true},
		"npm's own records": {func(dir string) {
			write(t, filepath.Join(dir, "node_modules/.package-lock.json"), "{}")
			write(t, filepath.Join(dir, "node_modules/.cache/x/y"), "{}")
		}, true},
		"credentials of package registries": {func(dir string) {
			write(t, filepath.Join(dir, ".npmrc"), "token")
			write(t, filepath.Join(dir, "pip.conf"), "token")
		}, true},
		"the history of a repository": {func(dir string) { write(t, filepath.Join(dir, ".git/config"), "x") }, true},
		"who may execute":             {func(dir string) { require.NoError(t, os.Chmod(handler(dir), 0o755)) }, false},
		"the content":                 {func(dir string) { write(t, handler(dir), commonJS+" ") }, false},
		"an empty directory":          {func(dir string) { require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755)) }, false},
		"a file of the same name deeper down": {func(dir string) {
			write(t, filepath.Join(dir, "node_modules/lodash/.npmrc"), "x")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := pack(tc.change)
			require.Equal(t, tc.same, want.digest == changed.digest)
			require.Equal(t, tc.same, want.diffID == changed.diffID)
		})
	}
}

func TestALayerBelongsToRootAndCanBeReadByAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "handler.js"), commonJS)
	long := strings.Repeat("a-long-name/", 30) + "file"
	write(t, filepath.Join(dir, long), "x")
	require.NoError(t, os.Chmod(filepath.Join(dir, "handler.js"), 0o600))
	require.NoError(t, os.Symlink("handler.js", filepath.Join(dir, "index.js")))
	packed := packLayer(t, dir, "/kubeless")
	lines := strings.Split(printed(t, dir, "tar", "--utc", "--numeric-owner", "-tvzf", packed.file), "\n")
	require.Contains(t, lines[0], "drwxr-xr-x 0/0")
	require.Contains(t, lines[0], "1970-01-01 00:00 kubeless/")
	all := strings.Join(lines, "\n")
	require.Contains(t, all, "kubeless/"+long)
	require.Regexp(t, `-rw-r--r-- 0/0 +\d+ 1970-01-01 00:00 kubeless/handler.js`, all)
	require.Regexp(t, `lrwxrwxrwx 0/0 .* kubeless/index.js -> handler.js`, all)
	info, err := os.Stat(packed.file)
	require.NoError(t, err)
	require.Equal(t, packed.size, info.Size())
}

func TestALayerThatIsTooLargeNamesWhatTakesTheSpace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, size := range map[string]int{
		"handler.js": 10, "node_modules/small/index.js": 1 << 20, "node_modules/@scope/large/a": 3 << 20,
		"node_modules/@scope/large/b/c": 9 << 20, ".local/pandas/x.so": 5 << 20,
	} {
		write(t, filepath.Join(dir, file), strings.Repeat("x", size))
	}
	pack := func(maxSize int64) error {
		entries, err := list(dir)
		require.NoError(t, err)
		return checkSize(entries, maxSize)
	}
	require.NoError(t, pack(0))
	require.NoError(t, pack(18<<20+10))
	var failed *reasonError
	require.ErrorAs(t, pack(18<<20+9), &failed)
	require.Equal(t, language.ImageTooLarge, failed.reason)
	require.Contains(t, failed.message, "take 18 MiB, and 18 MiB are allowed")
	require.Contains(t, failed.message, "node_modules/@scope/large 12 MiB, .local/pandas 5.0 MiB, node_modules/small 1.0 MiB")
}

const (
	nodeDependencies   = `{"dependencies": {"lodash": "4.17.21", "bcrypt": "6.0.0"}}`
	pythonDependencies = "requests==2.32.3\nmarkupsafe==3.0.2\n"
)

func TestPackagesWorkInTheImageAndTheSamePlanGivesTheSameDigest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		runtime, dependencies string
		try                   []string // below the Function's directory
		want                  string
	}{
		"Node.js": {
			runtime: "nodejs22", dependencies: nodeDependencies,
			try: []string{"node", "-e", `
				const hash = require('bcrypt').hashSync('x', 4);
				console.log(require('lodash').chunk([1, 2, 3], 2).length, require('bcrypt').compareSync('x', hash))`},
			want: "2 true",
		},
		"Python": {
			runtime: "python312", dependencies: pythonDependencies,
			try: []string{"python3", "-I", "-c", `
import sys; sys.path.insert(0, '.local')
import requests, markupsafe._speedups, importlib.util, marshal
code = open(importlib.util.cache_from_source(requests.__file__), 'rb').read()
print(requests.__version__, code[4], marshal.loads(code[16:]).co_filename)`},
			want: "2.32.3 1 /kubeless/.local/requests/__init__.py",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var digests []string
			image := runtimeImage(t, types.OCIManifestSchema1)
			for range 2 {
				server := registrytest.Start(t)
				base := put(t, server, "runtime:1", image)
				plan := buildplan.Plan{
					Function: "shop/price", Runtime: tc.runtime, Base: base, Dependencies: tc.dependencies,
					Target: server.Host + "/shop-price:1", Insecure: true,
				}
				result := newJob(t, plan).build(t)
				digests = append(digests, result.Digest)

				root := unpack(t, get(t, server, server.Host+"/shop-price@"+result.Digest))
				task, err := taskOf(plan)
				require.NoError(t, err)
				dir := filepath.Join(root, task.language.FunctionDir)
				require.Equal(t, tc.want, printed(t, dir, tc.try...))
			}
			require.Equal(t, digests[0], digests[1])
		})
	}
}

func TestOnlyTheNewLayerIsUploaded(t *testing.T) {
	t.Parallel()
	for name, family := range map[string]types.MediaType{"Docker": types.DockerManifestSchema2, "OCI": types.OCIManifestSchema1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := registrytest.Start(t, registrytest.WithTLS())
			server := registrytest.Start(t, registrytest.WithUser("builder", "secret"))
			base := put(t, upstream, "rouse-run/runtime:1", runtimeImage(t, family))
			job := func(function, source string) *job {
				j := newJob(t, buildplan.Plan{
					Function: "shop/" + function, Runtime: "nodejs22", Base: base, Source: "exports.main = () => " + source,
					Target: server.Host + "/shop-" + function + ":1", Insecure: true,
				})
				write(t, filepath.Join(j.o.Registry, "config.json"),
					`{"auths": {"`+server.Host+`": {"username": "builder", "password": "secret"}}}`)
				write(t, filepath.Join(j.o.Input, buildplan.CAFile), string(upstream.CA))
				return j
			}
			job("one", "1").build(t)
			first := registrytest.Count(server.Requests())
			require.Equal(t, registrytest.Traffic{Uploaded: 5, Mounted: 2, Manifests: 2, Pulled: first.Pulled}, first,
				"the base's two layers and its configuration once, and then layer, configuration and manifest of the image")

			job("two", "2").build(t)
			second := registrytest.Count(server.Requests())
			require.Equal(t, registrytest.Traffic{Uploaded: 2, Mounted: 2, Manifests: 1, Pulled: second.Pulled}, second)
		})
	}
}

func TestALayerThatNobodyWantsIsNoFailureOfTheInstallation(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	push, err := listenHandover(dir)
	require.NoError(t, err)
	defer push.close()
	install, err := dialHandover(t.Context(), dir)
	require.NoError(t, err)
	defer install.close()
	accepted, err := push.accept(t.Context())
	require.NoError(t, err)
	require.NoError(t, accepted.Close())
	require.ErrorIs(t, install.send("/kubeless", nil), errNotWanted)
}
