//go:build e2e

package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// Kyma's controllers cannot be compiled here: the Go module proxy has none of their modules. So their objects are written as they leave
// them, with their names, labels, finalizers and owners.

const (
	kymaSystem     = "kyma-system"
	publisherProxy = "eventing-publisher-proxy"
	istio          = "istio-ingressgateway"
	finalizer      = "gateway.kyma-project.io/subresources"
)

// layOutAsKyma has the Functions run by Deployments as Kyma makes them, their hosts served beside Istio's objects, and the events wait
// at its consumers.
func (m *move) layOutAsKyma() {
	m.t.Helper()
	m.run(0)
	for _, name := range []string{"price", "stock"} {
		m.functionOfKyma(name)
	}
	m.apiRulesOfKyma()
	m.publisherOfKyma()
	conn := m.connect()
	defer func() { require.NoError(m.t, conn.Close(m.t.Context())) }()
	consumers, err := conn.Consumers(m.t.Context(), stream)
	require.NoError(m.t, err)
	for _, consumer := range consumers {
		if _, of := broker.SubscriptionOf(consumer); of {
			require.NoError(m.t, conn.HandBack(m.t.Context(), stream, consumer))
		}
	}
	found, err := conn.KymaConsumers(m.t.Context(), stream)
	require.NoError(m.t, err)
	require.Positive(m.t, found.Left)
	_, err = conn.Backlog(m.t.Context(), stream, routing.ConsumerName(m.namespace, "price"))
	require.Error(m.t, err, "Rouse has no consumer any more")
}

// functionOfKyma replaces Rouse's Deployment of a Function by one as Kyma makes it.
func (m *move) functionOfKyma(name string) {
	m.t.Helper()
	ours := &appsv1.Deployment{}
	require.NoError(m.t, m.cluster.Get(m.t.Context(), types.NamespacedName{Namespace: m.namespace, Name: name}, ours))
	kymas := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: name + "-x7k2p", Labels: ours.Labels, OwnerReferences: ours.OwnerReferences},
		Spec:       appsv1.DeploymentSpec{Selector: ours.Spec.Selector, Template: ours.Spec.Template},
	}
	require.NoError(m.t, m.cluster.Create(m.t.Context(), kymas))
	m.awaitDeployment(m.namespace, kymas.Name)
	require.NoError(m.t, m.cluster.Delete(m.t.Context(), ours))
}

func (m *move) awaitDeployment(namespace, name string) {
	m.t.Helper()
	deployment := &appsv1.Deployment{}
	require.NoError(m.t, framework.Await(m.t.Context(), timeout, "the pods of "+name, func(ctx context.Context) (bool, error) {
		err := m.cluster.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, deployment)
		return err == nil && deployment.Status.AvailableReplicas == 1, err
	}))
}

// proxy forwards requests to another Service, and ends its connections on SIGTERM at once, as servers in Go do.
const proxy = `
const http = require('http')
const server = http.createServer((request, response) => {
  const headers = { ...request.headers, connection: 'close' }
  delete headers.host
  const to = http.request(process.env.TARGET + request.url, { method: request.method, headers, agent: false }, answer => {
    response.writeHead(answer.statusCode, { 'content-type': answer.headers['content-type'] ?? 'text/plain' })
    answer.pipe(response)
  })
  to.on('error', error => { response.statusCode = 502; response.end(error.message) })
  request.pipe(to)
})
server.listen(8080)
process.on('SIGTERM', () => server.close())
`

// proxyManifest is a Deployment and its Service, as Kyma's modules have them. Their namespace, name, image and target are to be set.
const proxyManifest = `---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: NAMESPACE, name: NAME, labels: {app.kubernetes.io/name: NAME}}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: NAME}}
  template:
    metadata: {labels: {app.kubernetes.io/name: NAME}}
    spec:
      automountServiceAccountToken: false
      containers:
        - name: proxy
          image: IMAGE
          command: [node, -e, PROGRAM]
          env: [{name: TARGET, value: "http://TARGET.svc.cluster.local"}]
          readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
          resources: {requests: {cpu: 20m, memory: 32Mi}, limits: {memory: 256Mi}}
          securityContext:
            runAsNonRoot: true
            runAsUser: 1000
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
            seccompProfile: {type: RuntimeDefault}
---
apiVersion: v1
kind: Service
metadata: {namespace: NAMESPACE, name: NAME, labels: {app.kubernetes.io/name: NAME, kyma-project.io/module: eventing}}
spec:
  selector: {app.kubernetes.io/name: NAME}
  ports: [{name: http-client, port: 80, protocol: TCP, targetPort: 8080}]
`

func (m *move) proxyTo(namespace, name, target string) {
	m.t.Helper()
	image, err := m.cluster.RuntimeImage(m.t.Context(), "nodejs22")
	require.NoError(m.t, err)
	program, err := json.Marshal(proxy)
	require.NoError(m.t, err)
	text := strings.NewReplacer("NAMESPACE", namespace, "NAME", name, "IMAGE", image, "PROGRAM", string(program), "TARGET.svc", target+".svc").Replace(proxyManifest)
	require.NoError(m.t, m.cluster.ApplyYAML(m.t.Context(), namespace, text))
	m.awaitDeployment(namespace, name)
}

// publisherOfKyma is Kyma's publisher behind its Service.
func (m *move) publisherOfKyma() {
	m.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kymaSystem}}
	made := m.cluster.Create(m.t.Context(), namespace)
	if made != nil {
		require.True(m.t, apierrors.IsAlreadyExists(made), made)
	}
	m.t.Cleanup(func() {
		ctx := context.WithoutCancel(m.t.Context())
		if made == nil {
			require.NoError(m.t, m.cluster.DeleteNamespace(ctx, kymaSystem))
			return
		}
		for _, left := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
			left.SetNamespace(kymaSystem)
			left.SetName(publisherProxy)
			require.NoError(m.t, client.IgnoreNotFound(m.cluster.Delete(ctx, left)))
		}
	})
	m.t.Cleanup(func() { // before the namespace goes
		require.NoError(m.t, m.cluster.SetChartValues(context.WithoutCancel(m.t.Context()), "kyma.publisherAlias=false"))
	})
	m.proxyTo(kymaSystem, publisherProxy, "rouse-eventbridge."+framework.System)
}

var olderAPIRule = schema.GroupVersionKind{Group: framework.APIRuleGVK.Group, Version: "v2alpha1", Kind: framework.APIRuleGVK.Kind}

// hostOf is the short host of an APIRule.
func (m *move) hostOf(rule string) string { return rule + "-" + m.namespace }

// apiRulesOfKyma are an APIRule of v2 and one of v1beta1, which Kyma stores without a spec. Both lead to Function stock, and each has the
// objects of Kyma's API gateway; a stand-in serves their hosts as Istio would.
func (m *move) apiRulesOfKyma() {
	m.t.Helper()
	m.serveIstio()
	m.proxyTo(m.namespace, istio, "stock."+m.namespace)
	rule := framework.APIRule{Name: "rule", Host: m.hostOf("rule"), Service: "stock", Gateway: framework.OwnGateway, Methods: []string{"POST"}}
	require.NoError(m.t, m.cluster.ApplyYAML(m.t.Context(), m.namespace, rule.YAML()))
	older := &unstructured.Unstructured{Object: map[string]any{}}
	older.SetGroupVersionKind(olderAPIRule)
	older.SetNamespace(m.namespace)
	older.SetName("older")
	older.SetAnnotations(map[string]string{
		"gateway.kyma-project.io/original-version": "v1beta1",
		"gateway.kyma-project.io/v1beta1-spec": fmt.Sprintf(`{"host":%q,"gateway":"entrance.rouse-system.svc.cluster.local",`+
			`"service":{"name":"stock","port":80},"rules":[{"path":"/.*","methods":["POST"],"accessStrategies":[{"handler":"no_auth"}]}]}`, m.hostOf("older")),
	})
	require.NoError(m.t, m.cluster.Create(m.t.Context(), older))
	m.t.Cleanup(m.releaseAPIRules)
	for name, labels := range map[string]string{
		"rule":  fmt.Sprintf("{apirule.gateway.kyma-project.io/name: rule, apirule.gateway.kyma-project.io/namespace: %s}", m.namespace),
		"older": fmt.Sprintf("{apirule.gateway.kyma-project.io/v1beta1: older.%s}", m.namespace),
	} {
		m.finalizers(name, finalizer)
		text := strings.NewReplacer("NAME", name+"-k2z9x", "LABELS", labels, "HOST", m.hostOf(name)+"."+framework.OwnDomain, "NAMESPACE", m.namespace).Replace(istioObjects)
		require.NoError(m.t, framework.Await(m.t.Context(), time.Minute, "Istio's kinds", func(ctx context.Context) (bool, error) {
			err := m.cluster.ApplyYAML(ctx, m.namespace, text)
			return err == nil, err
		}))
	}
}

// finalizers sets those of an APIRule.
func (m *move) finalizers(rule string, all ...string) {
	m.t.Helper()
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: rule}}
	object.SetGroupVersionKind(olderAPIRule) // as v2 it would need a spec
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": all}})
	require.NoError(m.t, err)
	require.NoError(m.t, m.cluster.Patch(context.WithoutCancel(m.t.Context()), object, client.RawPatch(types.MergePatchType, text)))
}

// releaseAPIRules takes Kyma's finalizers, also after a move that has failed: the namespace could not be deleted.
func (m *move) releaseAPIRules() {
	m.finalizers("rule")
	m.finalizers("older")
}

// istioObjects are what Kyma's API gateway makes for an APIRule.
const istioObjects = `---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: NAME, labels: LABELS}
spec:
  hosts: [HOST]
  gateways: [kyma-system/kyma-gateway]
  http:
    - match: [{method: {regex: ^(POST)$}, uri: {prefix: /}}]
      route: [{destination: {host: stock.NAMESPACE.svc.cluster.local, port: {number: 80}}, weight: 100}]
      timeout: 180s
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: NAME, labels: LABELS}
spec:
  selector: {matchLabels: {serverless.kyma-project.io/function-name: stock}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: NAME, labels: LABELS}
spec:
  selector: {matchLabels: {serverless.kyma-project.io/function-name: stock}}
  rules:
    - from: [{source: {principals: [cluster.local/ns/istio-system/sa/istio-ingressgateway-service-account]}}]
      to: [{operation: {methods: [POST], paths: [/*]}}]
`

// serveIstio adds the kinds of Istio that Kyma's API gateway writes, without their schemas, where the cluster does not have them.
func (m *move) serveIstio() {
	m.t.Helper()
	for resource, kind := range map[schema.GroupResource]string{
		{Group: "networking.istio.io", Resource: "virtualservices"}:      "VirtualService",
		{Group: "security.istio.io", Resource: "requestauthentications"}: "RequestAuthentication",
		{Group: "security.istio.io", Resource: "authorizationpolicies"}:  "AuthorizationPolicy",
	} {
		definition := &metav1.PartialObjectMetadata{}
		definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		err := m.cluster.Get(m.t.Context(), types.NamespacedName{Name: resource.String()}, definition)
		if err == nil {
			continue
		}
		require.True(m.t, apierrors.IsNotFound(err), err)
		require.NoError(m.t, m.cluster.ApplyYAML(m.t.Context(), "", fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s}
spec:
  group: %s
  scope: Namespaced
  names: {plural: %s, kind: %s}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, resource, resource.Group, resource.Resource, kind)))
		m.t.Cleanup(func() {
			require.NoError(m.t, m.cluster.DeleteDefinition(context.WithoutCancel(m.t.Context()), resource.String()))
		})
	}
}
