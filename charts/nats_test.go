package charts

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestUsersOfTheChartHaveTheDocumentedPermissions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/nats.md")
	require.NoError(t, err)
	permissions, err := os.ReadFile("rouse/files/nats/permissions.conf")
	require.NoError(t, err)
	require.Contains(t, string(page), "```conf\n"+string(permissions)+"```\n")
}

func TestTheComponentsAreUsersOfTheChartsOwnNATS(t *testing.T) {
	t.Parallel()
	all := render(t, installations["its own NATS with users"])
	secret := named[*corev1.Secret](t, all, "rouse-nats")
	for _, source := range []string{"rouse-controller", "rouse-eventbridge", "rouse-scaler"} {
		component := strings.TrimPrefix(source, "rouse-")
		pod := named[*appsv1.Deployment](t, all, source).Spec.Template.Spec
		require.Subset(t, pod.Containers[0].Args, []string{
			"--nats-user=" + component, "--nats-password-file=/etc/rouse/nats-login/" + component,
		})
		require.Equal(t, "rouse-nats", pod.Volumes[0].Secret.SecretName)
		require.Equal(t, component, pod.Volumes[0].Secret.Items[0].Key)
	}

	server := natstest.Start(t, natstest.WithAuthorizationFile(t, natsConfig(t, all, secret.StringData["passwords.conf"])))
	streams := broker.DefaultStreamOptions()
	streams.Name = "events" // the stream's name in that installation
	require.NoError(t, login(t, server, secret, "controller").EnsureStreams(t.Context(), streams))
	for _, component := range []string{"eventbridge", "scaler"} {
		_, err := login(t, server, secret, component).Backlog(t.Context(), "events", "orders")
		require.ErrorIs(t, err, broker.ErrConsumerNotFound, "it is allowed to ask")
	}
}

// natsConfig writes the configuration of the chart's NATS, with its passwords, and returns the path.
func natsConfig(t *testing.T, all objects, passwords string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "passwords.conf"), []byte(passwords), 0o600))
	file := filepath.Join(dir, "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(named[*corev1.ConfigMap](t, all, "rouse-nats").Data["nats.conf"]), 0o600))
	return file
}

func TestChartsNATSSyncsBeforeItConfirms(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{"": "always", "nats.syncInterval=2m": "2m0s"} {
		config := named[*corev1.ConfigMap](t, render(t, values{set}), "rouse-nats").Data["nats.conf"]
		require.Equal(t, want, natstest.SyncInterval(t, config))
	}
}

func login(t *testing.T, server *natstest.Server, secret *corev1.Secret, component string) *broker.Conn {
	t.Helper()
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte(secret.StringData[component]), 0o600))
	options := broker.Options{URL: server.URL(), Name: "rouse-" + component, User: component, PasswordFile: password}
	conn, err := broker.Connect(t.Context(), options, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		require.NoError(t, conn.Close(ctx))
	})
	require.Eventually(t, conn.Connected, time.Minute, time.Millisecond)
	return conn
}
