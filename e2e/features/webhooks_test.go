//go:build e2e

package features

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

// partner takes signed webhooks and no others. It answers with an event that says which key has signed.
const partner = `
import base64, hashlib, hmac, json, os, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ["KEY"].removeprefix("whsec_"))

class Partner(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        head = f'{self.headers["webhook-id"]}.{self.headers["webhook-timestamp"]}.'
        signature = "v1," + base64.b64encode(hmac.new(KEY, head.encode() + body, hashlib.sha256).digest()).decode()
        fresh = abs(time.time() - int(self.headers["webhook-timestamp"] or 0)) < 60
        if not fresh or signature not in (self.headers["webhook-signature"] or "").split():
            self.send_response(401)
            self.end_headers()
            return
        event = json.loads(body)
        answer = json.dumps({"key": event["data"]["key"]}).encode()
        self.send_response(200)
        for name, value in {
            "content-type": "application/json", "content-length": str(len(answer)), "ce-specversion": "1.0", "ce-id": event["id"],
            "ce-type": "ledger.entry.v1", "ce-source": "` + framework.Source + `",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass

ThreadingHTTPServer(("", 8080), Partner).serve_forever()
`

const partnerManifest = `
apiVersion: v1
kind: Service
metadata: {name: partner}
spec:
  selector: {app: partner}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: partner}
spec:
  selector: {matchLabels: {app: partner}}
  template:
    metadata: {labels: {app: partner}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 1
      containers:
        - name: partner
          image: %[1]s
          command: [python3, /app/partner.py]
          env: [{name: KEY, value: %[2]s}]
          ports: [{containerPort: 8080}]
          resources: {requests: {cpu: 20m, memory: 32Mi}}
          securityContext:
            runAsNonRoot: true
            runAsUser: 1000
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
            seccompProfile: {type: RuntimeDefault}
          volumeMounts: [{name: app, mountPath: /app}]
      volumes: [{name: app, configMap: {name: partner}}]
---
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {name: partner}
spec:
  source: %[3]s
  types: [partner.order.v1]
  sink: http://partner.%[4]s.svc.cluster.local/hooks
  delivery: {webhook: {secretName: partner}}
`

func TestDeliveriesAreSignedByTheKeysOfASecretAndWaitForIt(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	image, err := cluster.RuntimeImage(t.Context(), "python312")
	require.NoError(t, err)
	known, next := "whsec_"+strings.Repeat("A", 32), "whsec_"+strings.Repeat("B", 32)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, framework.ConfigMap("partner", map[string]string{"partner.py": partner})+
		"---\n"+fmt.Sprintf(partnerManifest, image, known, framework.Source, namespace)))
	publish := func(key string) {
		t.Helper()
		require.NoError(t, cluster.Publish(t.Context(), framework.Event{ID: key, Type: "partner.order.v1", Data: map[string]string{"key": key}}))
	}
	keyIs := func(data map[string]string) {
		t.Helper()
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, framework.Secret("partner", nil, data)))
		require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "partner"))
	}
	first, second := namespace+"-first", namespace+"-second"
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.SubscriptionGVK, "partner", "Subscription spec valid", "False", time.Minute))
	publish(first) // before there is a key
	keyIs(map[string]string{"current": known})
	_, err = cluster.AwaitLedger(t.Context(), namespace, []string{first}, 2*time.Minute)
	require.NoError(t, err)
	keyIs(map[string]string{"current": next, "previous": known}) // the partner knows the old one yet
	publish(second)
	entries, err := cluster.AwaitLedger(t.Context(), namespace, []string{first, second}, 2*time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, entries[first].Count)
	require.Equal(t, 1, entries[second].Count)
	requireConserved(t, cluster, namespace, "partner", []string{first, second})
}
