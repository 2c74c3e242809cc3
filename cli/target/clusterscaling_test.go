package target

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/kedarules"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const scaledObjectManifest = `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: pricing, annotations: {autoscaling.keda.sh/paused-scale-in: "true", autoscaling.keda.sh/paused-scale-out: "false"}}
spec:
  scaleTargetRef: {name: pricing}
  minReplicaCount: 0
  maxReplicaCount: 5
  cooldownPeriod: 60
  triggers: [{type: external-push, metadata: {scalerAddress: scaler:9090}}]
`

const autoscalerManifest = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: keda-hpa-pricing}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: pricing}
  maxReplicas: 5
  metrics: [{type: External, external: {metric: {name: s0-rouse-backlog}, target: {type: AverageValue, averageValue: "10"}}}]
`

// status sets the status of an object.
func (c testCluster) status(t *testing.T, object *unstructured.Unstructured, status string) {
	t.Helper()
	object.Object["status"] = envtest.Object(t, "apiVersion: v1\nkind: Status\nstatus: "+status).Object["status"]
	require.NoError(t, c.Client.Status().Update(t.Context(), object))
}

func TestTheScalingOfAFunctionIsReadFromKEDAAndItsHPA(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.status(t, c.apply(t, deploymentManifest), `{replicas: 2, readyReplicas: 1}`)
	c.status(t, c.apply(t, scaledObjectManifest), `{hpaName: keda-hpa-pricing, lastActiveTime: "2026-11-25T12:00:00Z", conditions: [
	  {type: Active, status: "True"}, {type: Ready, status: "False", message: no connection to the scaler}]}`)
	c.status(t, c.apply(t, autoscalerManifest), `{currentReplicas: 2, desiredReplicas: 2, conditions: [],
	  currentMetrics: [{type: External, external: {metric: {name: s0-rouse-backlog}, current: {averageValue: 7500m}}}]}`)

	got, err := c.open(t, "admin").Scaling(t.Context(), c.namespace, "pricing")
	require.NoError(t, err)
	require.Equal(t, &kedarules.Status{
		Ready: 1, Max: 5, CooldownSeconds: 60, LastActive: new(time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)), Active: true,
		NoScaleIn: "autoscaling.keda.sh/paused-scale-in", Problem: "no connection to the scaler",
		Metrics: []kedarules.Metric{{Name: "rouse-backlog", Value: 15, Target: 10}},
	}, got)
}

func TestAnHPAThatCannotScaleIsTheProblem(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"FailedGetExternalMetric": "the HPA keda-hpa-pricing: no metrics returned",
		"ScalingDisabled":         "", // at 0 replicas
	} {
		c := newTestCluster(t)
		c.apply(t, deploymentManifest)
		c.status(t, c.apply(t, scaledObjectManifest), `{hpaName: keda-hpa-pricing}`)
		c.status(t, c.apply(t, autoscalerManifest), `{currentReplicas: 0, desiredReplicas: 0, currentMetrics: [],
		  conditions: [{type: ScalingActive, status: "False", reason: `+reason+`, message: no metrics returned}]}`)
		got, err := c.open(t, "admin").Scaling(t.Context(), c.namespace, "pricing")
		require.NoError(t, err)
		require.Equal(t, want, got.Problem, reason)
	}
}

func TestTheScalingOfAFunctionWithoutKEDAIsReadFromItsHPA(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.status(t, c.apply(t, deploymentManifest), `{replicas: 2, readyReplicas: 2}`)
	alone := strings.NewReplacer("keda-hpa-pricing", "pricing", "s0-rouse-backlog", "rouse-replicas", `averageValue: "10"`, `averageValue: "1"`)
	c.status(t, c.apply(t, alone.Replace(autoscalerManifest)), `{currentReplicas: 2, desiredReplicas: 2, conditions: [],
	  currentMetrics: [{type: External, external: {metric: {name: rouse-replicas}, current: {averageValue: 750m}}}]}`)
	got, err := c.open(t, "admin").Scaling(t.Context(), c.namespace, "pricing")
	require.NoError(t, err)
	require.True(t, got.Autoscaler)
	require.True(t, got.Active)
	require.Equal(t, 1, got.Min)
	require.Equal(t, 5, got.Max)
	require.Empty(t, got.Problem)
	require.Equal(t, []kedarules.Metric{{Name: "rouse-replicas", Value: 1.5, Target: 1}}, got.Metrics)
}

func TestAFunctionWithoutAScaledObjectIsExplainedByItsCondition(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	conn := c.open(t, "admin")
	got, err := conn.Scaling(t.Context(), c.namespace, "pricing")
	require.NoError(t, err)
	require.Nil(t, got, "there is no Deployment yet")

	c.apply(t, deploymentManifest)
	got, err = conn.Scaling(t.Context(), c.namespace, "pricing")
	require.NoError(t, err)
	require.Equal(t, &kedarules.Status{Problem: "it has no ScaledObject yet"}, got)

	c.status(t, c.apply(t, functionManifest), `{conditions: [{type: Scaling, status: "False", reason: KedaNotInstalled,
	  message: KEDA is not installed, lastTransitionTime: "2026-11-25T12:00:00Z"}]}`)
	got, err = conn.Scaling(t.Context(), c.namespace, "pricing")
	require.NoError(t, err)
	require.Equal(t, &kedarules.Status{Problem: "KEDA is not installed"}, got)

	_, err = c.open(t, "limited").Scaling(t.Context(), c.namespace, "pricing")
	require.Equal(t, exit.Unreachable, exit.CodeOf(err))
	require.ErrorContains(t, err, "you may not get deployments in namespace "+c.namespace)
}

func TestMetricsAreNamedWithoutKEDAsPrefix(t *testing.T) {
	t.Parallel()
	for metric, want := range map[string]string{
		"s0-rouse-backlog": "rouse-backlog", "s12-rouse-http": "rouse-http", "rouse-backlog": "rouse-backlog", "sum-of": "sum-of", "s1": "s1",
	} {
		require.Equal(t, want, withoutPrefix(metric))
	}
}

func TestASubscriptionLeadsToTheFunctionOfItsSink(t *testing.T) {
	t.Parallel()
	fn := Function{Namespace: "orders", Name: "pricing"}
	for sink, want := range map[string]bool{
		"http://pricing.orders.svc.cluster.local": true, "http://pricing.orders.svc.cluster.local:80/path": true,
		"http://pricing2.orders.svc.cluster.local": false, "http://pricing.mail.svc.cluster.local": false, "-": false, "": false,
	} {
		require.Equal(t, want, (&Subscription{Namespace: "orders", Sink: sink}).LeadsTo(&fn), sink)
	}
	require.False(t, (&Subscription{Namespace: "mail", Sink: "http://pricing.orders.svc.cluster.local"}).LeadsTo(&fn))
}
