package migrate_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// usersObjects are what Kyma's users have beside their Functions, Subscriptions and APIRules.
const usersObjects = `
{apiVersion: v1, kind: Secret, metadata: {namespace: kyma-system, name: serverless-package-registry-config}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: serverless-package-registry-config}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: serverless-registry-config}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: serverless-registry-config-default}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: git-login}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: of-the-user}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: shop, name: developers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kyma-functions-edit}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: shop, name: others}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: operators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kyma-serverless-edit}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kyma-system, name: functions-ui, labels: {busola.io/extension: resource}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kyma-system, name: pods-ui, labels: {busola.io/extension: resource}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kyma-system, name: function-cli, labels: {kyma-cli/extension: commands}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: shop, name: delivery, labels: {grafana_dashboard: "1"}}
data: {delivery.json: 'sum(rate(eventing_ec_nats_subscriber_dispatch_duration_seconds_count[5m]))'}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: shop, name: nodes, labels: {grafana_dashboard: "1"}}
data: {nodes.json: 'node_load1'}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {namespace: shop, name: backlog}
spec: {groups: [{name: a, rules: [{alert: Backlog, expr: jetstream_consumer_num_pending > 100}]}]}
---
{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {namespace: kyma-system, name: eventing-manager}, spec: {}}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {namespace: kyma-system, name: kyma-gateway}
spec:
  servers:
    - {hosts: ["*.example.com"], port: {name: http, number: 80, protocol: HTTP}}
    - {hosts: ["*.example.com"], port: {name: https, number: 443, protocol: HTTPS}, tls: {mode: SIMPLE, credentialName: kyma-gateway-certs}}
---
apiVersion: operator.kyma-project.io/v1alpha2
kind: Istio
metadata: {namespace: kyma-system, name: default}
spec: {config: {authorizers: [{name: sessions, service: oauth2-proxy.oauth2-proxy.svc.cluster.local, port: "80"}]}}
`

func TestThePlanNamesTheCounterpartOfWhatKymasUsersHave(t *testing.T) {
	l := newLayout(t, planned)
	l.serve("networking.istio.io/v1", "gateways", "Gateway")
	l.serve("operator.kyma-project.io/v1alpha2", "istios", "Istio")
	l.serve("monitoring.coreos.com/v1", "prometheusrules", "PrometheusRule")
	l.serve("monitoring.coreos.com/v1", "servicemonitors", "ServiceMonitor")
	fn := &v1alpha2.Function{Spec: v1alpha2.FunctionSpec{Runtime: v1alpha2.RuntimeNodeJS22, Source: v1alpha2.Source{GitRepository: &v1alpha2.GitRepositorySource{
		URL: "https://git.example.com/shop.git", Reference: "main", BaseDir: "/",
		Auth: &v1alpha2.RepositoryAuth{Type: v1alpha2.RepositoryAuthBasic, SecretName: "git-login"},
	}}}}
	fn.Namespace, fn.Name = shop, "price"
	l.create(fn)
	for manifest := range strings.SplitSeq(usersObjects, "---") {
		l.createServed(envtest.Object(t, manifest))
	}
	code, out, errs := l.run("plan")
	require.Zero(t, code, errs)
	_, section, found := strings.Cut(out, "Secrets, rights, dashboards and alerts\n")
	require.True(t, found, out)
	section, _, _ = strings.Cut(section, "\n\n")
	require.Equal(t, []string{
		"  differs: ClusterRoleBinding operators binds kyma-serverless-edit: bind a role of your own where a Serverless is written: it rules the Functions of all namespaces",
		"  differs: ConfigMap kyma-system/function-cli is a command of Kyma's command line: rouse init, deploy, get, describe and delete do the same",
		"  differs: ConfigMap kyma-system/functions-ui is a page of Kyma's dashboard, which still shows these resources; events, backlogs and dead letters are in metrics.dashboards.enabled and the command line",
		"  differs: ConfigMap shop/delivery reads Kyma's metrics: eventing_epp_* and eventing_ec_* are served by the eventbridge, and metrics.dashboards.enabled has more",
		"  differs: Gateway kyma-system/kyma-gateway serves *.example.com: set apiRules.domains.kyma-system/kyma-gateway=example.com",
		"  differs: Gateway kyma-system/kyma-gateway has the certificate of Secret kyma-gateway-certs: copy it to namespace rouse-system and add it to apiRules.tls.secretNames",
		"  differs: Istio kyma-system/default has authorizer sessions (oauth2-proxy.oauth2-proxy.svc.cluster.local): add it to apiRules.authorizers",
		"  differs: PrometheusRule shop/backlog reads Kyma's metrics: eventing_epp_* and eventing_ec_* are served by the eventbridge, jetstream_* name other consumers, serverless_* end; metrics.alerts.enabled has alerts for the same",
		"  differs: RoleBinding shop/developers binds kyma-functions-edit: bind rouse-edit, which edit of a namespace contains",
		"  differs: Secret kyma-system/serverless-package-registry-config is not copied to other namespaces: create it in each namespace whose builds need it",
		"  differs: Secret shop/git-login stays: Git sources use the same keys",
		"  differs: Secret shop/serverless-package-registry-config stays: builds use the same keys",
		"  differs: Secret shop/serverless-registry-config stays: images of the namespace are pushed to that registry",
		"  differs: Secret shop/serverless-registry-config-default belongs to Kyma's own registry and can be deleted: the chart's registry has an account for each namespace",
		"  differs: ServiceMonitor kyma-system/eventing-manager scrapes Kyma's pods: metrics.podMonitor.enabled scrapes those of Rouse",
	}, strings.Split(section, "\n"))
}
