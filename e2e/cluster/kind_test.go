package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder replaces docker, kind, kubectl, go and helm. It records its calls and prints the output that the next steps
// need; a file named after a command, such as "kind-load", makes the command fail.
const recorder = `#!/bin/sh
name=${0##*/}
echo "$name $*" >>"$RECORD/calls"
for last; do :; done
if [ "$last" = - ]; then cat >/dev/null; fi
if [ -e "$RECORD/$name-$1" ]; then echo "the daemon does not answer" >&2; exit 1; fi
case "$name $1 $2" in
"docker build "*) echo sha256:0123456789abcdef ;;
"docker exec "*) cat "$RECORD/node" 2>/dev/null ;;
"kind create cluster") echo rouse >"$RECORD/clusters" ;;
"kind delete cluster") rm -f "$RECORD/clusters" ;;
"kind get clusters") cat "$RECORD/clusters" 2>/dev/null ;;
"go run -C") printf 'nodejs22 docker.io/library/node:22\ngo126 docker.io/library/golang:1.26\nnodejs20 docker.io/library/node:20\n' ;;
"go build -C") mkdir -p "${5%/*}" && cp "$0" "$5" ;;
esac
true
`

// kind runs e2e/kind.sh on a machine with recorders.
type kind struct {
	t             *testing.T
	record, state string
	env           []string
}

func newKind(t *testing.T) *kind {
	t.Helper()
	bin, record, cache := t.TempDir(), t.TempDir(), t.TempDir()
	for _, name := range []string{"docker", "kind", "kubectl", "go"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(recorder), 0o755))
	}
	env := []string{"PATH=" + bin + ":/usr/bin:/bin", "RECORD=" + record, "ROUSE_CACHE=" + cache, "ROUSE_CLUSTER=kind"}
	return &kind{t: t, record: record, state: filepath.Join(cache, "kind"), env: env}
}

func (k *kind) run(args ...string) (printed string, err error) {
	k.t.Helper()
	script := exec.CommandContext(k.t.Context(), "../kind.sh", args...)
	script.Env = k.env
	out, err := script.CombinedOutput()
	return string(out), err
}

// calls returns the calls since the last time.
func (k *kind) calls() string {
	k.t.Helper()
	text, err := os.ReadFile(filepath.Join(k.record, "calls"))
	require.NoError(k.t, err)
	require.NoError(k.t, os.Remove(filepath.Join(k.record, "calls")))
	return strings.ReplaceAll(string(text), k.state, "/state")
}

func (k *kind) write(name, text string) {
	k.t.Helper()
	require.NoError(k.t, os.WriteFile(filepath.Join(k.record, name), []byte(text), 0o600))
}

func TestKindBuildsImagesMakesTheClusterAndInstallsRouse(t *testing.T) {
	t.Parallel()
	k := newKind(t)
	printed, err := k.run("up")
	require.NoError(t, err, printed)
	calls, at := k.calls(), 0
	const runtime = "registry.kube-system.svc.cluster.local:5000/rouse-runtime-"
	for _, want := range []string{
		"docker build --quiet --load --build-arg VERSION=local .\n",
		"docker build --quiet --load --build-arg BASE_IMAGE=docker.io/library/golang:1.26 runtimes/golang\n",
		"kind create cluster --name rouse --config /state/kind.yaml --kubeconfig /state/kubeconfig --wait 5m\n",
		"docker save --output /state/images.tar rouse.local/rouse:0123456789ab ", "kind load image-archive /state/images.tar --name rouse\n",
		"kubectl --kubeconfig /state/kubeconfig --namespace kube-system rollout status deployment/registry ",
		"images push --hosts-dir /etc/containerd/certs.d " + runtime, "/keda-2.", "helm upgrade --install rouse charts/rouse ",
	} {
		found := strings.Index(calls[at:], want)
		require.GreaterOrEqual(t, found, 0, "%s after\n%s", want, calls[:at])
		at += found
	}
	values, err := os.ReadFile(filepath.Join(k.state, "values.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(values), "  go126: "+runtime+"go126:0123456789ab\n  nodejs20: null\ncaBundle: |\n  -----BEGIN CERTIFICATE-----\n")

	printed, err = k.run("env")
	require.NoError(t, err)
	require.Equal(t, "export KUBECONFIG='"+k.state+"/kubeconfig'\nexport PATH='"+k.state+"/tools':\"$PATH\"\n", printed)
	k.write("node", runtime+"nodejs22:0123456789ab\n"+runtime+"go126:0123456789ab\nrouse.local/rouse:0123456789ab\nrouse.local/source-server:0123456789ab\n")
	k.calls()
	printed, err = k.run("up")
	require.NoError(t, err, printed)
	calls = k.calls()
	require.NotContains(t, calls, "kind create", "it runs")
	require.NotContains(t, calls, "kind load", "the node has all images")

	_, err = k.run("down")
	require.NoError(t, err)
	require.NoDirExists(t, k.state)
	_, err = k.run("status")
	require.Error(t, err)
}

func TestKindClusterThatFailsToStartIsDeleted(t *testing.T) {
	t.Parallel()
	k := newKind(t)
	k.write("kind-load", "")
	printed, err := k.run("up")
	require.Error(t, err)
	require.Contains(t, printed, "the daemon does not answer")
	require.True(t, strings.HasSuffix(k.calls(), "kind delete cluster --name rouse --kubeconfig /state/kubeconfig\n"))
	require.NoDirExists(t, k.state)
}

func TestKindReportsMissingRequirements(t *testing.T) {
	t.Parallel()
	k := newKind(t)
	k.write("docker-version", "")
	printed, err := k.run("preflight")
	require.Error(t, err)
	require.Contains(t, printed, "- `docker version` does not work: install Docker Engine")
	require.NotContains(t, printed, "buildx")
}
