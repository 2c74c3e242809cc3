//go:build e2e

package features

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// worker is a plain HTTP server that takes CloudEvents and publishes one for each, after a while. It knows nothing of Functions.
const worker = `
const http = require('http')
http.createServer((req, res) => {
  let body = ''
  req.on('data', (part) => (body += part)).on('end', async () => {
    await new Promise((done) => setTimeout(done, 100))
    const { key } = JSON.parse(body)
    const headers = { 'content-type': 'application/json', 'ce-specversion': '1.0', 'ce-source': '` + framework.Source + `',
      'ce-type': 'ledger.entry.v1', 'ce-id': key + Math.random() }
    const answer = await fetch(process.env.PUBLISHER, { method: 'POST', headers, body: JSON.stringify({ key, at: Date.now() }) })
    res.writeHead(answer.ok ? 204 : 500).end()
  })
}).listen(8080)
process.on('SIGTERM', () => process.exit(0))
`

// startWorker creates a workload of a kind, which a Service lets sleep, and a Subscription to the Service. It returns when it sleeps.
func startWorker(t *testing.T, cluster *framework.Cluster, namespace, kind, eventType string) {
	t.Helper()
	ledger := &appsv1.Deployment{}
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: framework.LedgerName}, ledger))
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata:
  name: jobs
  annotations:
    rouse.run/scale-target: %[1]s/worker
    rouse.run/max-replicas: "3"
    rouse.run/cooldown-period: "5"
    rouse.run/polling-interval: "2"
spec:
  selector: {app: worker}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: apps/v1
kind: %[1]s
metadata: {name: worker}
spec:
  selector: {matchLabels: {app: worker}}
  template:
    metadata: {labels: {app: worker}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 5
      containers:
        - name: worker
          image: %[2]s
          command: [node, -e, %[3]q]
          env: [{name: PUBLISHER, value: "http://rouse-eventbridge.%[4]s.svc.cluster.local/publish"}]
          readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
          securityContext:
            runAsNonRoot: true
            runAsUser: 1000
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
            seccompProfile: {type: RuntimeDefault}
---
`, kind, ledger.Spec.Template.Spec.Containers[0].Image, worker, framework.System)
	subscription := framework.Subscription{Name: "jobs", Namespace: namespace, Type: eventType, Sink: "jobs"}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, manifest+subscription.YAML()))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "jobs"))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "worker", 0, asleep))
}

func TestAWorkloadThatIsNoFunctionSleepsAndWakesOnItsEvents(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	startWorker(t, cluster, namespace, "Deployment", "worker.jobs.v1")
	record, err := cluster.RecordReplicas(t.Context(), namespace, "worker")
	require.NoError(t, err)
	for _, events := range []int{1, 300} {
		keys := publishMany(t, cluster, "worker.jobs.v1", "job", events)
		_, err := cluster.AwaitLedger(t.Context(), namespace, keys, 2*time.Minute)
		require.NoError(t, err)
		requireConserved(t, cluster, namespace, "jobs", keys)
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "worker", 0, asleep))
	}
	moves := record.Moves()
	highest := int32(0)
	for _, move := range moves {
		highest = max(highest, move.Replicas)
	}
	require.Equal(t, int32(3), highest, "the backlog did not scale the workload out to its most replicas: %v", moves)
	require.Equal(t, 3, framework.DirectionChanges(moves), "one wake for each backlog: %v", moves)
}

func TestAWorkloadIsWokenWithoutKEDA(t *testing.T) { //nolint:paralleltest // others need KEDA
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	startWorker(t, cluster, namespace, "Deployment", "worker.alone.v1")
	var keys []string
	require.NoError(t, cluster.Without(t.Context(), "keda", "keda-operator", func() error {
		keys = publishMany(t, cluster, "worker.alone.v1", "alone", 3)
		_, err := cluster.AwaitLedger(t.Context(), namespace, keys, time.Minute)
		return err
	}), "its events waited for KEDA")
	requireConserved(t, cluster, namespace, "jobs", keys)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "worker", 0, 3*time.Minute))
}

func TestAWorkloadThatCannotBeScaledIsReportedAtItsService(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, `
apiVersion: v1
kind: Service
metadata: {name: jobs, annotations: {rouse.run/scale-target: deployment/absent}}
spec: {selector: {app: worker}, ports: [{port: 80}]}
`))
	var notes []string
	require.NoError(t, framework.Await(t.Context(), time.Minute, "an Event about the Service", func(ctx context.Context) (bool, error) {
		events := &eventsv1.EventList{}
		err := cluster.List(ctx, events, client.InNamespace(namespace))
		for _, event := range events.Items {
			if event.Type == corev1.EventTypeWarning && event.Regarding.Kind == "Service" && event.Reason == "CannotScale" {
				notes = append(notes, event.Note)
			}
		}
		return len(notes) > 0, err
	}))
	require.Equal(t, "Deployment absent does not exist in namespace "+namespace+": create it, or correct annotation rouse.run/scale-target", notes[0])
}
