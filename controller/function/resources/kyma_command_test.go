package resources

import (
	"archive/zip"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/workload"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// trickyText is what shells and Kubernetes like to change.
const trickyText = `$$ $(FUNC_NAME) \n %s`

// kymaPod runs the command of a pod as a process, in a directory that stands for the root of the image.
func kymaPod(t *testing.T, root string, fn *v1alpha2.Function, inline *workload.Inline, extra ...string) *exec.Cmd {
	t.Helper()
	code := Code{Runtime: fn.Spec.Runtime, Kyma: true, Inline: inline}
	known, err := kymaOf(code)
	require.NoError(t, err)
	line := kymaCommand(known)
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Dir = filepath.Join(root, known.FunctionDir)
	require.NoError(t, os.MkdirAll(cmd.Dir, 0o750))
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	for _, variable := range workload.KymaEnvironment(fn, fn.Spec.Runtime, inline, workload.Addresses{}) {
		cmd.Env = append(cmd.Env, variable.Name+"="+strings.ReplaceAll(variable.Value, "$$", "$")) // as the kubelet does
	}
	cmd.Env = append(cmd.Env, extra...)
	// All of a pod's processes end with the first one. npm does not hand signals on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func copyServer(t *testing.T, name, dir string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata/kyma", name))
	require.NoError(t, err)
	write(t, filepath.Join(dir, name), string(content))
}

// nodeImage is a root with a server for Node.js, and a package.
func nodeImage(t *testing.T, root string) *workload.Inline {
	t.Helper()
	app, greeting := filepath.Join(root, "usr/src/app"), filepath.Join(root, "greeting")
	write(t, filepath.Join(app, "package.json"), `{"scripts":{"start":"node server.mjs"}}`)
	copyServer(t, "server.mjs", app)
	write(t, filepath.Join(greeting, "package.json"), `{"name":"greeting","version":"1.0.0","main":"index.js"}`)
	write(t, filepath.Join(greeting, "index.js"), `module.exports = 'hello'`)
	return &workload.Inline{
		Source:       "module.exports = { main: () => String.raw`" + trickyText + "` + ' ' + require('greeting') }",
		Dependencies: fmt.Sprintf(`{"dependencies":{"greeting":%q}}`, "file:"+greeting),
	}
}

// pythonImage is the same for Python. A wheel needs no network.
func pythonImage(t *testing.T, root string) *workload.Inline {
	t.Helper()
	copyServer(t, "server.py", root)
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for name, content := range map[string]string{
		"greeting.py":                     "TEXT = 'hello'\n",
		"greeting-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
		"greeting-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"greeting-1.0.dist-info/RECORD":   "greeting.py,,\ngreeting-1.0.dist-info/METADATA,,\ngreeting-1.0.dist-info/WHEEL,,\ngreeting-1.0.dist-info/RECORD,,\n",
	} {
		file, err := archive.Create(name)
		require.NoError(t, err)
		_, err = io.WriteString(file, content)
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	path := filepath.Join(root, "greeting-1.0-py3-none-any.whl")
	write(t, path, packed.String())
	return &workload.Inline{
		Source:       "import greeting\ndef main(event, context):\n    return r'" + trickyText + "' + ' ' + greeting.TEXT",
		Dependencies: path,
	}
}

func TestThePodOfKymasContractWritesTheCodeAndStartsTheImagesServer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fn    *v1alpha2.Function
		image func(t *testing.T, root string) *workload.Inline
	}{
		"Node.js": {function(kyma), nodeImage},
		"Python":  {function(kyma, python), pythonImage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			cmd := kymaPod(t, root, tc.fn, tc.image(t, root), "FUNCTION_PATH="+filepath.Join(root, "kubeless"))
			output, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			defer func() {
				require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
				_ = cmd.Wait() // says that it was killed
			}()
			port := ""
			lines := bufio.NewScanner(output)
			for port == "" && lines.Scan() {
				_, _ = fmt.Sscanf(lines.Text(), "listening %s", &port)
			}
			require.NotEmpty(t, port, "the server did not start")
			require.Equal(t, "OK", get(t, port, "/healthz"))
			require.Equal(t, trickyText+" hello", get(t, port, "/"), "the source arrives as it was written")
		})
	}
}

func get(t *testing.T, port, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+path, http.NoBody)
	require.NoError(t, err)
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

func TestAnImageWithoutAServerSaysSo(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]*v1alpha2.Function{"Node.js": function(kyma), "Python": function(kyma, python)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := kymaPod(t, t.TempDir(), fn, &workload.Inline{Source: "x"}).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(output), "The image of spec.runtimeImageOverride has no server")
		})
	}
}

func TestAnImageMadeFromARuntimeOfRouseWorksByKymasContractToo(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	app := filepath.Join(root, "usr/src/app")
	write(t, filepath.Join(app, "package.json"), `{"scripts":{}}`)
	write(t, filepath.Join(app, "bundles/main.js"), "")
	write(t, filepath.Join(app, "server.js"), "console.log(process.env.HANDLER_PATH, process.env.FUNC_HANDLER_SOURCE, require(process.env.HANDLER_PATH))")
	output, err := kymaPod(t, root, function(kyma), &workload.Inline{Source: "module.exports = 42"}).CombinedOutput()
	require.NoError(t, err, string(output))
	require.Contains(t, string(output), "./function/handler.js undefined 42\n")

	root = t.TempDir()
	write(t, filepath.Join(root, "usr/src/app/function_server/__init__.py"), "")
	write(t, filepath.Join(root, "usr/src/app/main.py"), "import os\nprint(os.environ.get('FUNC_HANDLER_SOURCE'), os.environ['FUNCTION_PATH'])")
	output, err = kymaPod(t, root, function(kyma, python), &workload.Inline{Source: "x"}).CombinedOutput()
	require.NoError(t, err, string(output))
	require.Contains(t, string(output), "None /kubeless\n")
}

func TestKubernetesExpandsNothingInTheCommand(t *testing.T) {
	t.Parallel()
	for _, each := range languages.All() {
		if each.Kyma == nil {
			continue
		}
		require.NotContains(t, each.Kyma.Script, "$(")
		require.NotContains(t, each.Kyma.Script, "$$")
	}
}
