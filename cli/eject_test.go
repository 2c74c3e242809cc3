package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// leaving returns a folder with a Function of each language, of several files.
func leaving(t *testing.T) string {
	t.Helper()
	function := func(name, runtime string) string {
		return strings.NewReplacer("pricing", name, "nodejs22", runtime, "spec:\n", `spec:
  env:
    - {name: a.b-c, value: "1"}
    - {name: CURRENCY, value: "EUR $(X) 'a'"}
    - {name: KEY, valueFrom: {secretKeyRef: {name: bank, key: key}}}
  secretMounts: [{secretName: bank, mountPath: /bindings/bank}]
  scaleConfig: {minReplicas: 0, maxReplicas: 3}
  resourceConfiguration: {function: {resources: {requests: {cpu: 50m, memory: 64Mi}}}}
`).Replace(packedFunction)
	}
	return writeFolder(t, map[string]string{
		"node/function.yaml": function("node", "nodejs22"), "node/lib/rate.ts": "export const rate: number = 7\n",
		"node/handler.ts":  "import { rate } from './lib/rate'\nexport const main = (): string => 'price ' + rate + ' ' + process.env.CURRENCY\n",
		"py/function.yaml": function("py", "python312"), "py/rates.py": "RATE = 7\n",
		"py/handler.py":        "import os\n\nimport rates\n\n\ndef main(event, context):\n    return f\"price {rates.RATE} {os.environ['CURRENCY']}\"\n",
		"golang/function.yaml": function("golang", "go126"), "golang/rates/rates.go": "package rates\n\nconst Rate = \"7\"\n", "golang/go.mod": "module shop\n",
		"golang/handler.go": "package handler\n\nimport (\n\t\"io\"\n\t\"net/http\"\n\t\"os\"\n\n\t\"shop/rates\"\n)\n\n" +
			"func Handle(w http.ResponseWriter, _ *http.Request) {\n\t_, _ = io.WriteString(w, \"price \"+rates.Rate+\" \"+os.Getenv(\"CURRENCY\"))\n}\n",
		"bank.local.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: bank}\nstringData: {key: hush}\n",
	})
}

func TestAnEjectedFunctionAnswersAsAProcess(t *testing.T) {
	t.Parallel()
	folder := leaving(t)
	for _, name := range []string{"node", "py", "golang"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := filepath.Join(t.TempDir(), "out")
			got := run(t, "", "eject", name, folder, "--to", to)
			require.Equal(t, 0, got.code, got.err)
			require.Equal(t, to+"\nsee "+to+"/README.md\n", got.out)
			require.Contains(t, got.err, "not in the folder: scaling from 0 to 3")
			requireCopied(t, to)
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // of a TCP listener
			require.NoError(t, listener.Close())
			runEjected(t, to, port)
			require.Equal(t, "price 7 EUR $(X) 'a'", awaitProcess(t, "http://127.0.0.1:"+port))
		})
	}
}

// runEjected runs the folder's script until the end of the test.
func runEjected(t *testing.T, folder, port string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	command := exec.CommandContext(ctx, "sh", filepath.Join(folder, "run.sh"))
	command.Env = append(os.Environ(), "FUNC_PORT="+port, "KEY=hush")
	var out strings.Builder
	command.Stdout, command.Stderr = &out, &out
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		cancel()
		_ = command.Wait() // it was ended
		if t.Failed() {
			t.Log(out.String())
		}
	})
}

// awaitProcess returns the answer of a process that may have to be compiled first.
func awaitProcess(t *testing.T, url string) string {
	t.Helper()
	var answer string
	require.Eventually(t, func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			return false
		}
		response, err := loopback.Default.Do(request)
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		answer = string(text)
		return err == nil && response.StatusCode == http.StatusOK
	}, 5*testTimeout, 10*tick)
	return answer
}

// requireCopied checks that the Dockerfile copies files that are there.
func requireCopied(t *testing.T, folder string) {
	t.Helper()
	dockerfile, err := os.ReadFile(filepath.Join(folder, "Dockerfile"))
	require.NoError(t, err)
	require.NotContains(t, string(dockerfile), "%")
	for line := range strings.Lines(string(dockerfile)) {
		words := strings.Fields(line)
		if len(words) == 3 && words[0] == "COPY" {
			require.DirExists(t, filepath.Join(folder, words[1]), line)
		}
	}
}

func TestTheManifestsOfAnEjectedFunctionAreAcceptedAndHaveNoSecret(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.control(t, readyStatus)
	folder := leaving(t)
	require.Equal(t, 0, c.run(t, "deploy", folder).code)
	to := filepath.Join(t.TempDir(), "out")
	got := c.run(t, "eject", "node", "--to", to, "--image", "registry.example.com/node:1")
	require.Equal(t, 0, got.code, got.err)
	source, err := os.ReadFile(filepath.Join(to, "source", "lib", "rate.ts"))
	require.NoError(t, err)
	require.Equal(t, "export const rate: number = 7\n", string(source), "the files come from the cluster's ConfigMap")

	manifests, err := os.ReadFile(filepath.Join(to, "kubernetes.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(manifests), "image: registry.example.com/node:1\n")
	texts := strings.Split(strings.TrimPrefix(string(manifests), "---\n"), "---\n")
	require.Len(t, texts, 2)
	for _, text := range texts {
		object := envtest.Object(t, text)
		require.Equal(t, c.namespace, object.GetNamespace())
		require.NoError(t, c.Client.Create(t.Context(), object, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)), text)
	}
	require.NoError(t, filepath.WalkDir(to, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		require.NotContains(t, string(content), "hush", path)
		return err
	}))

	require.Equal(t, exit.Usage, exit.Code(c.run(t, "eject", "node", "--to", to).code), "nothing is overwritten")
	require.Equal(t, exit.NotFound, exit.Code(c.run(t, "eject", "nope", "--to", to+"2").code))
	require.Equal(t, exit.NotFound, exit.Code(run(t, "", "eject", "nope", folder).code))
	require.NoDirExists(t, to+"2")
}
