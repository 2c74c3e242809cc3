//go:build e2e

package features

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

// The chart makes such a Service in kyma-system (kyma.publisherAlias). The ids have the namespace's name, because an event whose
// id was seen lately is stored once.
func TestAPublisherReachesTheEventbridgeByAnAliasInAnotherNamespace(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, `apiVersion: v1
kind: Service
metadata: {name: eventing-publisher-proxy}
spec:
  type: ExternalName
  externalName: rouse-eventbridge.`+framework.System+`.svc.cluster.local
  ports: [{name: http-client, port: 80}]
`))
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "alias.received.v1", framework.Function{Name: "receiver", Max: 1, Source: framework.ReportingHandler("")})
	sleeper(t, cluster, namespace, "alias.sent.v1", framework.Function{Name: "sender", Max: 1, Source: fmt.Sprintf(`
module.exports = { main: async (event) => {
  const answer = await fetch('http://eventing-publisher-proxy.%[1]s.svc.cluster.local/publish', {
    method: 'POST',
    headers: { 'content-type': 'application/cloudevents+json' },
    body: JSON.stringify({
      specversion: '1.0', id: '%[1]s-' + event.data.key, source: '%[2]s', type: 'alias.received.v1', data: event.data,
    }),
  })
  if (answer.status !== 204) throw new Error('the alias answered ' + answer.status)
} }
`, namespace, framework.Source)})
	keys := publishMany(t, cluster, "alias.sent.v1", "alias", 1)
	_, err := cluster.AwaitLedger(t.Context(), namespace, keys, 2*time.Minute)
	require.NoError(t, err)
}
