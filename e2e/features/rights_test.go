//go:build e2e

package features

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/verbs"
)

// TestATenantHandlesTheDeadLettersOfItsNamespaceAlone logs in with a token of a kubeconfig, which has the ClusterRoles edit in one
// namespace and view in another.
func TestATenantHandlesTheDeadLettersOfItsNamespaceAlone(t *testing.T) {
	t.Parallel()
	cluster, own := connect(t)
	other, err := cluster.CreateNamespace(t.Context(), "e2e")
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		require.NoError(t, cluster.DeleteNamespace(ctx, other))
	})
	const refusing = "module.exports.main = (event) => { event.setResponseStatus(400); return 'no such order' }"
	for _, namespace := range []string{own, other} {
		// Types of their own, so that each has one dead letter.
		subscription := framework.Subscription{Name: "refusing", Namespace: namespace, Type: "rights." + namespace + ".v1", Sink: "refusing"}
		function := framework.Function{Name: "refusing", Runtime: "nodejs22", Source: refusing}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()+"---\n"+subscription.YAML()))
		require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "refusing"))
		require.NoError(t, cluster.Publish(t.Context(), framework.Event{ID: namespace, Type: "rights." + namespace + ".v1", Data: map[string]any{"iban": "DE1"}}))
	}
	operator := buildRouse(t, other)
	for _, namespace := range []string{own, other} {
		operator("events", "tail", "-A", "--id", namespace, "--kind", "deadlettered", "--limit", "1", "--since", "5m")
	}

	token, err := cluster.Tenant(t.Context(), own, "edit")
	require.NoError(t, err)
	kubeconfig, err := cluster.WriteKubeconfig(t.TempDir(), own, token)
	require.NoError(t, err)
	urls, err := cluster.AdminAPIs(t.Context())
	require.NoError(t, err)
	program, err := verbs.Build(t.Context(), filepath.Join("..", ".."), t.TempDir())
	require.NoError(t, err)
	tenant := verbs.Rouse{Program: program, Where: []string{"--kubeconfig", kubeconfig, "--admin-url", strings.Join(urls, ",")}}
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		out, err := tenant.Run(ctx, args...)
		return string(out), err
	}
	listed := func(what string, args ...string) (out string) {
		require.NoError(t, framework.Await(t.Context(), time.Minute, what, func(context.Context) (bool, error) { // bindings are seen in a moment
			var err error
			out, err = run(args...)
			return err == nil, err
		}))
		return out
	}
	mine := listed("the tenant's right", "dlq", "list")
	require.Contains(t, mine, own+"/refusing")
	require.NotContains(t, mine, other)
	sequence, err := run("dlq", "list", "-o", "name")
	require.NoError(t, err)
	sequence = strings.TrimSpace(sequence)
	shown, err := run("dlq", "show", sequence)
	require.NoError(t, err)
	require.Contains(t, shown, "DE1")
	happened, err := run("events", "tail", "--follow=false", "--since", "5m")
	require.NoError(t, err)
	require.Contains(t, happened, own+"/refusing")
	require.NotContains(t, happened, other)

	for _, refused := range [][]string{
		{"dlq", "list", "-n", other},
		{"dlq", "list", "-A"},
		{"dlq", "purge", "--all", "--yes", "-n", other},
		{"dlq", "redrive", "--all", "--yes", "-n", other},
		{"dlq", "show", sequence, "-A"},
		{"events", "tail", "--follow=false", "-n", other},
		{"events", "tail", "-n", other},
	} {
		_, err := run(refused...)
		require.ErrorContains(t, err, "system:serviceaccount:"+own+":tenant may not ", "%v", refused)
		require.ErrorContains(t, err, "ask for a ", "%v", refused)
	}
	foreign := strings.TrimSpace(operator("dlq", "list", "-o", "name"))
	_, err = run("dlq", "show", foreign)
	require.ErrorContains(t, err, "there is no dead letter "+foreign+" in namespace "+own)

	require.NoError(t, cluster.ApplyYAML(t.Context(), other, viewerOf(own)))
	require.Contains(t, listed("the guest's right", "dlq", "list", "-n", other), other+"/refusing")
	_, err = run("dlq", "show", foreign, "-n", other)
	require.ErrorContains(t, err, "may not get deadletters.rouse.run in namespace "+other)
	require.ErrorContains(t, err, "ask for a RoleBinding there to the ClusterRole edit")

	purged, err := run("dlq", "purge", sequence)
	require.NoError(t, err)
	require.Equal(t, "purged 1\n", purged)
	require.Contains(t, operator("dlq", "list"), other+"/refusing")
}

// viewerOf lets the tenant of another namespace see what is in this one.
func viewerOf(namespace string) string {
	return `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "guest"},
 "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
 "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": "` + namespace + `"}]}`
}
