//go:build e2e

package release

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/e2e/framework"
)

// installWithoutHelm applies the release's one file, of which only what this cluster needs is changed: where the images of others are, and
// a smaller volume. The demo reads deliveries from the log, and does not wait a minute for a first sleep.
func installWithoutHelm(t *testing.T, cluster *framework.Cluster, out string, nats, registry string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "install.yaml"))
	require.NoError(t, err)
	require.NotContains(t, string(text), "kind: Secret\n")
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		for before, after := range map[string]string{
			"image: docker.io/library/nats:":     "image: " + nats,
			"image: docker.io/library/registry:": "image: " + registry,
			"storage: 20Gi":                      "storage: 10Gi",
			"logLevel: info":                     "logLevel: debug",
			"initialCooldownPeriod: ":            "initialCooldownPeriod: 5s",
		} {
			if indent, _, found := strings.Cut(line, before); found {
				lines[i] = indent + after
			}
		}
	}
	file := filepath.Join(t.TempDir(), "install.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
	// The CRDs are still there from Helm, whose labels they have.
	kubectl(t, "apply", "--server-side", "--force-conflicts", "--filename", file)
	t.Cleanup(func() { kubectl(t, "delete", "--ignore-not-found", "--timeout=3m", "--filename", file) })
	kubectl(t, "wait", "--namespace", framework.System, "--for=condition=Complete", "--timeout=5m", "job", "--selector=app.kubernetes.io/component=credentials")
	kubectl(t, "rollout", "status", "--namespace", framework.System, "--timeout=5m", "deployment")
	secret, err := cluster.Kube.CoreV1().Secrets(framework.System).Get(t.Context(), "rouse-registry", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.SecretTypeOpaque, secret.Type)
	require.NotEmpty(t, secret.Data["password"], "the Job made it")
}

func kubectl(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "kubectl", args...).CombinedOutput()
	require.NoError(t, err, "kubectl %s: %s", strings.Join(args, " "), out)
}
