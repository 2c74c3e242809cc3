package kind

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/release"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// recorder is a program that stands for docker, kind, kubectl and helm. It writes down how it was called, and answers what the next
// steps need; a file of its name, "kind-create" for one, has its command fail.
const recorder = `#!/bin/sh
name=${0##*/}
printf '%s' "$name" >>"$RECORD/calls"
for arg; do printf ' %s' "$arg" >>"$RECORD/calls"; last=$arg; done
echo >>"$RECORD/calls"
if [ "$last" = - ]; then cat >/dev/null; fi
if [ -e "$RECORD/$name-$1" ]; then echo "the daemon does not answer" >&2; exit 1; fi
case "$name $1 $2" in
"docker build "*) echo sha256:0123456789abcdef ;;
"docker exec "*) cat "$RECORD/node" 2>/dev/null ;;
"kind create cluster") echo rouse >"$RECORD/clusters" ;;
"kind delete cluster") rm -f "$RECORD/clusters" ;;
"kind get clusters") cat "$RECORD/clusters" 2>/dev/null ;;
"docker ps --all") echo rouse-control-plane ;;
esac
true
`

// machine is one on which these programs are in PATH.
type machine struct {
	t       *testing.T
	record  string
	said    *bytes.Buffer
	cluster *Cluster
}

func newMachine(t *testing.T, programs ...string) *machine {
	t.Helper()
	m := &machine{t: t, record: t.TempDir(), said: &bytes.Buffer{}}
	bin := t.TempDir()
	for _, name := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(recorder), 0o755))
	}
	t.Setenv("RECORD", m.record)
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	if len(programs) < len(all()) { // those of this machine would be found
		t.Setenv("PATH", bin)
	}
	work := t.TempDir()
	m.cluster = New(Options{
		Repository: "/repo", Cache: state.Cache(filepath.Join(work, "cache")), Dir: state.Dir(filepath.Join(work, "state")),
		Runtimes: []string{"nodejs22"},
	}, progress.New(m.said))
	m.cluster.helm = func(context.Context) (string, error) { return filepath.Join(bin, "helm"), nil }
	return m
}

func all() []string { return []string{"docker", "kind", "kubectl", "helm", "go"} }

// calls since the last time, without what differs from run to run.
func (m *machine) calls() []string {
	m.t.Helper()
	file := filepath.Join(m.record, "calls")
	text, err := os.ReadFile(file)
	require.NoError(m.t, err)
	require.NoError(m.t, os.Remove(file))
	lines := strings.ReplaceAll(strings.TrimSpace(string(text)), string(m.cluster.options.Dir), "/state")
	return strings.Split(strings.ReplaceAll(lines, "kubectl --kubeconfig /state/kubeconfig ", "kubectl "), "\n")
}

func (m *machine) fails(command string) {
	m.t.Helper()
	require.NoError(m.t, os.WriteFile(filepath.Join(m.record, command), nil, 0o600))
}

const runtimeImage = "registry.kube-system.svc.cluster.local:5000/rouse-runtime-nodejs22:0123456789ab"

func TestUpBuildsImagesMakesTheClusterAndInstallsRouse(t *testing.T) {
	m := newMachine(t, all()...)
	require.NoError(t, m.cluster.Up(t.Context()), m.said)
	const ctr = "docker exec rouse-control-plane ctr --namespace k8s.io images "
	require.Equal(t, []string{
		"docker version --format {{.Server.Version}}", "docker buildx version", "kind version", "kubectl version --client", "go version",
		"kind get clusters",
		"docker build --quiet --load --build-arg VERSION=local /repo",
		"docker tag sha256:0123456789abcdef rouse.local/rouse:0123456789ab",
		"docker build --quiet --load --build-arg PACKAGES=ca-certificates git openssh-server lighttpd lighttpd-mod-openssl -",
		"docker tag sha256:0123456789abcdef rouse.local/source-server:0123456789ab",
		"docker build --quiet --load --build-arg BASE_IMAGE=docker.io/library/node:22-bookworm-slim /repo/runtimes/nodejs",
		"docker tag sha256:0123456789abcdef " + runtimeImage,
		"kind create cluster --name rouse --config /state/config/kind.yaml --kubeconfig /state/kubeconfig --wait 5m",
		ctr + "list --quiet",
		"docker save --output /state/images.tar " + runtimeImage + " rouse.local/rouse:0123456789ab rouse.local/source-server:0123456789ab",
		"kind load image-archive /state/images.tar --name rouse",
		"kubectl apply --server-side --force-conflicts -f -",
		"kubectl --namespace kube-system rollout status deployment/registry --timeout=10m0s",
		ctr + "push --hosts-dir /etc/containerd/certs.d " + runtimeImage,
		"kubectl apply --server-side --force-conflicts -f https://github.com/kedacore/keda/releases/download/v2.21.0/keda-2.21.0.yaml",
		"kubectl --namespace keda rollout status deployment/keda-operator --timeout=10m0s",
		"kubectl --namespace keda rollout status deployment/keda-metrics-apiserver --timeout=10m0s",
		"kubectl wait --for=condition=Available apiservice/v1beta1.external.metrics.k8s.io --timeout=10m0s",
		"kubectl apply --server-side --force-conflicts -f -",
		"kubectl " + strings.Join(release.DeletePending(release.Namespace, release.Name), " "),
		"helm upgrade --install rouse /repo/charts/rouse --namespace rouse-system --create-namespace --values /state/helm/values-rouse.yaml " +
			"--wait --timeout 8m0s",
	}, m.calls())

	var selected bytes.Buffer
	require.NoError(t, m.cluster.Env(t.Context(), &selected))
	dir := string(m.cluster.options.Dir)
	require.Equal(t, "export KUBECONFIG='"+dir+"/kubeconfig'\nexport PATH='"+dir+"/tools':\"$PATH\"\n", selected.String())
	require.FileExists(t, dir+"/tools/helm")
	require.NoError(t, m.cluster.Status(t.Context(), io.Discard))
}

func TestUpOnAClusterThatRunsLoadsOnlyWhatChanged(t *testing.T) {
	m := newMachine(t, all()...)
	require.NoError(t, m.cluster.Up(t.Context()), m.said)
	m.calls()
	known := runtimeImage + "\nrouse.local/rouse:0123456789ab\nrouse.local/source-server:0123456789ab\n"
	require.NoError(t, os.WriteFile(filepath.Join(m.record, "node"), []byte(known), 0o600))
	require.NoError(t, m.cluster.Up(t.Context()), m.said)
	for _, call := range m.calls() {
		require.NotContains(t, call, "kind create")
		require.NotContains(t, call, "kind load")
	}
}

func TestAClusterThatCouldNotBeBroughtUpIsTakenDownUnlessItRanBefore(t *testing.T) {
	m := newMachine(t, all()...)
	m.fails("kind-load")
	require.ErrorIs(t, m.cluster.Up(t.Context()), ErrTakenDown)
	require.Contains(t, m.said.String(), `failed in step "images"`)
	require.Contains(t, m.said.String(), "the daemon does not answer", "the end of the log")
	calls := m.calls()
	require.Equal(t, "kind delete cluster --name rouse --kubeconfig /state/kubeconfig", calls[len(calls)-1])
	require.NoDirExists(t, string(m.cluster.options.Dir))

	m.cluster.options.KeepFailed = true
	require.ErrorContains(t, m.cluster.Up(t.Context()), "kind load image-archive")
	require.NotContains(t, strings.Join(m.calls(), "\n"), "kind delete")
	m.cluster.options.KeepFailed = false
	require.ErrorContains(t, m.cluster.Up(t.Context()), "kind load image-archive", "it runs now")
	require.NotContains(t, strings.Join(m.calls(), "\n"), "kind delete")
}

func TestDownDeletesTheClusterAndItsDirectory(t *testing.T) {
	m := newMachine(t, all()...)
	require.NoError(t, m.cluster.Up(t.Context()), m.said)
	require.Equal(t, []string{"container rouse-control-plane", "directory " + string(m.cluster.options.Dir)}, m.cluster.Leftovers(t.Context()))
	require.NoError(t, m.cluster.Down(t.Context()))
	require.NoDirExists(t, string(m.cluster.options.Dir))
	require.ErrorIs(t, m.cluster.Env(t.Context(), io.Discard), ErrNotRunning)
	require.ErrorIs(t, m.cluster.Status(t.Context(), io.Discard), ErrNotRunning)
}

func TestPreflightNamesWhatIsMissingAndTheRemedy(t *testing.T) {
	for name, tc := range map[string]struct {
		programs []string
		fails    string
		want     []string
	}{
		"nothing is there": {want: []string{
			"docker is not in PATH: install Docker Engine", "kind is not in PATH: go install sigs.k8s.io/kind@latest",
			"kubectl is not in PATH", "go is not in PATH",
		}},
		"no kind": {programs: []string{"docker", "kubectl", "go"}, want: []string{"kind is not in PATH"}},
		"a daemon that is away": {programs: all(), fails: "docker-version", want: []string{
			"(the daemon does not answer): start its daemon, or let this user reach it",
		}},
		"no buildx": {programs: all(), fails: "docker-buildx", want: []string{
			"docker buildx version does not work", "install Docker's plugin buildx",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, tc.programs...)
			if tc.fails != "" {
				m.fails(tc.fails)
			}
			err := m.cluster.Up(t.Context())
			require.ErrorIs(t, err, ErrUnfit)
			require.ErrorContains(t, err, "CLUSTER=local, the default, needs neither")
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			require.NoDirExists(t, string(m.cluster.options.Dir), "nothing is changed")
		})
	}
}

func TestStateOfKindIsInTheCacheUnlessItIsNamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ named, want string }{"by default": {"", "/cache/kind"}, "named": {"/elsewhere", "/elsewhere"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			getenv, err := Environment(func(variable string) string {
				return map[string]string{"ROUSE_CACHE": "/cache", "ROUSE_STATE": tc.named, "KUBECONFIG": "mine"}[variable]
			})
			require.NoError(t, err)
			require.Equal(t, tc.want, getenv("ROUSE_STATE"))
			require.Equal(t, "mine", getenv("KUBECONFIG"))
		})
	}
}
