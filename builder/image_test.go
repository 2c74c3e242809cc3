package builder

import (
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

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
				require.Equal(t, tc.want, output(t, dir, tc.try...))
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
