package apirules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

const committed = `
apiVersion: gateway.kyma-project.io/v2
kind: APIRule
metadata:
  name: price
spec:
  hosts: [price]
  gateway: kyma-system/kyma-gateway
  service: {name: price, port: 80}
  rules:
  - {path: /*, methods: [GET], noAuth: true}
`

func TestACommitIsInForceAndNeverDrifts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.gateway("10.0.0.1")
	commit := gitops.NewCommit(t, f.tenant, committed)
	require.NoError(t, commit.Apply(t.Context(), f))
	rule := &v2.APIRule{}
	rule.Namespace, rule.Name = f.tenant, "price"
	require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(rule), rule))
	gitops.RequireInProgress(t, rule) // no controller runs

	f.start()
	gitops.RequireInProgress(t, f.await(rule, v2.StateError, "not found"))
	f.service(f.tenant, "price")
	gitops.RequireCurrent(t, f.await(rule, v2.StateReady, ""))

	// A gateway comes, and loads the APIRule, meanwhile.
	commit.RequireNoDrift(t, f, 3, time.Second, func(round int) {
		if round == 1 {
			f.gateway("10.0.0.2")
		}
	})
	f.await(rule, v2.StateReady, "")
	commit.RequireQuiet(t, f, 3, time.Second)

	broken := gitops.NewCommit(t, f.tenant, committed+"  - {path: /a, methods: [GET], noAuth: true}\n")
	require.NoError(t, broken.Apply(t.Context(), f))
	require.Contains(t, gitops.RequireFailed(t, f.await(rule, v2.StateError, "conflicts")), "Path /a with method GET conflicts")

	require.NoError(t, commit.Apply(t.Context(), f))
	gitops.RequireCurrent(t, f.await(rule, v2.StateReady, ""))
}
