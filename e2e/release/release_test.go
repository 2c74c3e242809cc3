//go:build e2e

package release

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	version = "v0.1.0"
	root    = "../.."
)

func TestReleaseIsInstalledFromItsRegistryWithAndWithoutHelm(t *testing.T) {
	registry, authority := os.Getenv("ROUSE_REGISTRY"), os.Getenv("ROUSE_REGISTRY_CA")
	require.NotEmpty(t, registry, "ROUSE_REGISTRY: it is set by the env of the local cluster")
	cluster, err := framework.Connect()
	require.NoError(t, err)
	// Each run has a separate path: a version is released only once.
	registry += fmt.Sprintf("/releases-%d", time.Now().Unix())
	out := filepath.Join(t.TempDir(), "release")
	last := makeRelease(t, registry, authority, out)
	require.Regexp(t, `^release ok: images=\d+ platforms=4 charts=1 archives=4 sbom=\d+ reproducible=yes$`, last)

	values, nats, images := remainingValues(t)
	helm(t, "uninstall", framework.System, "--wait", "--timeout", "3m")
	chart := "oci://" + registry + "/charts/rouse"
	helm(t, "install", framework.System, chart, "--version", strings.TrimPrefix(version, "v"), "--ca-file", authority,
		"--values", values, "--wait", "--timeout", "5m")
	requireDigests(t, cluster, registry)
	play(t)

	helm(t, "uninstall", framework.System, "--wait", "--timeout", "3m")
	installWithoutHelm(t, cluster, out, nats, images)
	requireDigests(t, cluster, registry)
	play(t)
	t.Log(last)
}

// play runs the order chain.
func play(t *testing.T) {
	t.Helper()
	played, err := exec.CommandContext(t.Context(), "go", "run", root+"/e2e/demo", "-sample", root+"/samples/orders").CombinedOutput()
	t.Log(string(played))
	require.NoError(t, err)
	require.Contains(t, string(played), "demo ok: events=9 lost=0 ")
}

// makeRelease runs the release command as a user would, and returns its last line of output.
func makeRelease(t *testing.T, registry, authority, out string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "make", "-C", root, "release", "VERSION="+version, "OUT="+out, "REGISTRY="+registry, "IMAGES="+othersDigests(t))
	command.Env = append(os.Environ(), "SSL_CERT_FILE="+trusted(t, authority))
	printed, err := command.CombinedOutput()
	t.Log(string(printed))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(printed)), "\n")
	return lines[len(lines)-1]
}

// othersDigests writes a file with digests of third-party images. The cluster uses its own images instead, so that any
// digests will do.
func othersDigests(t *testing.T) string {
	t.Helper()
	listed, err := exec.CommandContext(t.Context(), "go", "run", "-C", root+"/tools/release", ".", "--list-images", "--repository", "../..").Output()
	require.NoError(t, err)
	digests := map[string]string{}
	for reference := range strings.FieldsSeq(string(listed)) {
		digests[reference] = "sha256:" + strings.Repeat("0", 64)
	}
	text, err := json.Marshal(digests)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "images.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

// trusted returns the certificates that this machine trusts, and the authority of the cluster's registry.
func trusted(t *testing.T, authority string) string {
	t.Helper()
	system := os.Getenv("SSL_CERT_FILE")
	if system == "" {
		system = "/etc/ssl/certs/ca-certificates.crt"
	}
	both, err := os.ReadFile(system)
	require.NoError(t, err)
	own, err := os.ReadFile(authority)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "trusted.crt")
	require.NoError(t, os.WriteFile(file, append(append(both, '\n'), own...), 0o600))
	return file
}

// remainingValues returns a file with the values of the cluster's own installation without its images, and the images
// of NATS and of the registry.
func remainingValues(t *testing.T) (file, nats, registry string) {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "helm", "get", "values", release, "--namespace", framework.System, "--output", "yaml").Output()
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(text, &values))
	delete(values, "image")
	runtimes, _ := values["runtimes"].(map[string]any)
	for runtime, image := range runtimes {
		if image != nil {
			delete(runtimes, runtime)
		}
	}
	text, err = yaml.Marshal(values)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	image := func(path ...string) string {
		named, found, err := unstructured.NestedStringMap(values, path...)
		require.NoError(t, err)
		require.True(t, found, path)
		return named["repository"] + ":" + named["tag"]
	}
	return file, image("nats", "image"), image("registry", "internal", "image")
}

// requireDigests checks that each running image of ours is from that registry and referenced by digest.
func requireDigests(t *testing.T, cluster *framework.Cluster, registry string) {
	t.Helper()
	pinned := regexp.MustCompile("^" + regexp.QuoteMeta(registry) + "/rouse:" + strings.TrimPrefix(version, "v") + "@sha256:[0-9a-f]{64}$")
	deployments, err := cluster.Kube.AppsV1().Deployments(framework.System).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	ours := 0
	for _, deployment := range deployments.Items {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			if strings.Contains(container.Image, "rouse.local/") { // NATS and the registry of images are the cluster's own
				continue
			}
			require.Regexp(t, pinned, container.Image, deployment.Name)
			ours++
			for _, arg := range container.Args {
				if runtime, ok := strings.CutPrefix(arg, "--runtime-image="); ok {
					require.Contains(t, runtime, registry+"/rouse-runtime-")
					require.Contains(t, runtime, "@sha256:")
				}
			}
		}
	}
	require.GreaterOrEqual(t, ours, 4)
}

const release = "rouse"

func helm(t *testing.T, verb string, namespace string, args ...string) {
	t.Helper()
	all := append([]string{verb, release}, args...)
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "helm", append(all, "--namespace", namespace)...).CombinedOutput()
	require.NoError(t, err, "helm %s: %s", strings.Join(all, " "), out)
}

// installWithoutHelm applies the release's single file, adapted to this cluster: the locations of third-party images,
// and a smaller volume. The demo reads deliveries from the log, and does not wait a minute for a first sleep.
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
	// The CRDs remain from Helm, with its labels.
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
