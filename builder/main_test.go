package builder

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/internal/testing/output"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
	"github.com/rouse-run/rouse/runtimes/language"
)

// packages is a cache of npm and pip that all tests share.
var packages string

// Builds run with a HOME of their own, in which a version manager's python3 does not find its version.
func TestMain(m *testing.M) {
	interpreter, err := exec.CommandContext(context.Background(), "python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "find python3:", err)
		os.Exit(1)
	}
	dir := filepath.Dir(strings.TrimSpace(string(interpreter)))
	packages, err = os.MkdirTemp("", "builder-packages-")
	if err == nil {
		err = os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	if err == nil {
		err = shareObjects(packages)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(packages)
	os.Exit(code)
}

// job is what a build Job would give the builder.
type job struct {
	o      Options
	git    Git
	output *output.Buffer
	log    *output.Buffer
}

func newJob(t *testing.T, plan buildplan.Plan) *job {
	t.Helper()
	root := t.TempDir()
	j := &job{
		o: Options{
			Input: filepath.Join(root, "input"), Source: filepath.Join(root, "source"), Registry: filepath.Join(root, "registry"),
			Packages: filepath.Join(root, "packages"), Handover: shortDir(t), Work: filepath.Join(root, "work"), Cache: packages,
			Function: filepath.Join(root, "function"),
		},
		output: &output.Buffer{}, log: &output.Buffer{},
	}
	for _, dir := range []string{j.o.Input, j.o.Source, j.o.Registry, j.o.Packages, j.o.Work, j.o.Function} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	text, err := buildplan.EncodePlan(plan)
	require.NoError(t, err)
	write(t, filepath.Join(j.o.Input, buildplan.PlanFile), string(text))
	return j
}

func (j *job) builder() *Builder {
	return New(j.o, Deps{Git: j.git, Output: j.output, Log: funcr.New(func(_, args string) {
		_, _ = fmt.Fprintln(j.log, args)
	}, funcr.Options{})})
}

func (j *job) build(t *testing.T) buildplan.Result {
	t.Helper()
	result := tried(func() buildplan.Result { return j.run(t.Context()) })
	require.Empty(t, result.Reason, "%s\n%s\n%s", result.Message, j.output, j.log)
	return result
}

// run does what the containers of a build Job do, each with a volume of its own, and takes the result as the controller does.
func (j *job) run(ctx context.Context) buildplan.Result {
	if fetched := j.builder().Fetch(ctx); fetched.Reason != "" {
		return fetched
	}
	step := func(name string) *Builder {
		b := j.builder()
		b.o.Work = filepath.Join(j.o.Work, name)
		return b
	}
	var installed buildplan.Result
	var both sync.WaitGroup
	both.Go(func() { installed = step("install").Install(ctx) })
	pushed := step("push").Push(ctx)
	both.Wait()
	if installed.Reason != "" {
		return installed
	}
	return pushed
}

// shortDir has a name short enough for the path of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "h") //nolint:usetesting // the name of a test may be long
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// tried does again what failed because the packages' registry did not answer, as the controller would.
func tried(attempt func() buildplan.Result) (result buildplan.Result) {
	for range 3 {
		if result = attempt(); result.Reason != language.PackagesUnreachable {
			break
		}
	}
	return result
}

// prepared is the result of an init container.
func (j *job) prepared(t *testing.T) buildplan.Result {
	t.Helper()
	return tried(func() buildplan.Result {
		if fetched := j.builder().Fetch(t.Context()); fetched.Reason != "" {
			return fetched
		}
		return j.builder().Prepare(t.Context())
	})
}

func write(t *testing.T, file, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
}

// runtimeImage is an image with two layers, as a runtime's: small, but like any other.
func runtimeImage(t *testing.T, family types.MediaType) v1.Image {
	t.Helper()
	image := mutate.MediaType(empty.Image, family)
	layerType, configType := types.DockerLayer, types.DockerConfigJSON
	if family == types.OCIManifestSchema1 {
		layerType, configType = types.OCILayer, types.OCIConfigJSON
	}
	image = mutate.ConfigMediaType(image, configType)
	for range 2 {
		content, err := random.Layer(100_000, layerType)
		require.NoError(t, err)
		image, err = mutate.Append(image, mutate.Addendum{Layer: content, MediaType: layerType})
		require.NoError(t, err)
	}
	image, err := mutate.Config(image, v1.Config{User: "1000:1000", Entrypoint: []string{"node", "server.js"}, Env: []string{"A=b"}})
	require.NoError(t, err)
	return image
}

// put pushes an image as another client would.
func put(t *testing.T, at *registrytest.Registry, reference string, image v1.Image) string {
	t.Helper()
	full, err := name.ParseReference(at.Host + "/" + reference)
	require.NoError(t, err)
	require.NoError(t, remote.Write(full, image, reach(t, at)...))
	return full.String()
}

func get(t *testing.T, at *registrytest.Registry, reference string) v1.Image {
	t.Helper()
	full, err := name.ParseReference(reference)
	require.NoError(t, err)
	image, err := remote.Image(full, reach(t, at)...)
	require.NoError(t, err)
	return image
}

func reach(t *testing.T, at *registrytest.Registry) []remote.Option {
	t.Helper()
	options := registry.TransportOptions{CA: at.CA}
	if at.CA == nil {
		options.Insecure = []string{at.Host}
	}
	transport, err := registry.NewTransport(options)
	require.NoError(t, err)
	return []remote.Option{remote.WithTransport(transport), remote.WithContext(t.Context())}
}

func registryOf(t *testing.T, host string) name.Registry {
	t.Helper()
	parsed, err := name.NewRegistry(host)
	require.NoError(t, err)
	return parsed
}

// diffIDs are what the layers of an image hold.
func diffIDs(t *testing.T, image v1.Image) []string {
	t.Helper()
	config, err := image.ConfigFile()
	require.NoError(t, err)
	ids := make([]string, 0, len(config.RootFS.DiffIDs))
	for _, id := range config.RootFS.DiffIDs {
		ids = append(ids, id.String())
	}
	return ids
}

// layersOf are those of the base of an image in a registry. All of them have to be there.
func layersOf(t *testing.T, at *registrytest.Registry, reference string) []string {
	t.Helper()
	image := get(t, at, reference)
	require.NoError(t, validate.Image(image))
	ids := diffIDs(t, image)
	return ids[:len(ids)-1]
}

// unpack writes the image's last layer below a directory, as a container would see it.
func unpack(t *testing.T, image v1.Image) string {
	t.Helper()
	layers, err := image.Layers()
	require.NoError(t, err)
	content, err := layers[len(layers)-1].Uncompressed()
	require.NoError(t, err)
	defer func() { require.NoError(t, content.Close()) }()
	root := t.TempDir()
	command := exec.CommandContext(t.Context(), "tar", "-x", "--no-same-owner", "-C", root)
	command.Stdin = content
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	return root
}

// printed returns the output of a program that must succeed.
func printed(t *testing.T, dir string, line ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), line[0], line[1:]...)
	command.Dir = dir
	text, err := command.CombinedOutput()
	require.NoError(t, err, string(text))
	return strings.TrimSpace(string(text))
}
