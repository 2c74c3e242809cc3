//go:build e2e

package features

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

func TestAFunctionFollowsItsConfigMapsAndSecretsAndItsScale(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	refer := func(kind, name, key string) map[string]any {
		return map[string]any{"name": key, "valueFrom": map[string]any{kind: map[string]any{"name": name, "key": key}}}
	}
	function := framework.Function{
		Name: "configured", Runtime: "nodejs22", Annotations: map[string]string{"rouse.run/restart-on-change": "true"},
		Source: `const fs = require('fs')
const read = file => fs.readFileSync('/etc/price/' + file, 'utf8')
module.exports.main = () => [process.env.PLAIN, process.env.COLOUR, process.env.WORD, read('list')].join(' ')`,
		Spec: map[string]any{
			"env": []any{
				map[string]any{"name": "PLAIN", "value": "plain"},
				refer("configMapKeyRef", "shop", "COLOUR"), refer("secretKeyRef", "secret", "WORD"),
			},
			"secretMounts": []any{map[string]any{"secretName": "prices", "mountPath": "/etc/price"}},
		},
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace,
		framework.ConfigMap("shop", map[string]string{"COLOUR": "green"})+"---\n"+
			framework.Secret("secret", nil, map[string]string{"WORD": "sesame"})+"---\n"+
			framework.Secret("prices", nil, map[string]string{"list": "cheap"})+"---\n"+function.YAML()))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "configured", "plain green sesame cheap", time.Minute))

	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, framework.ConfigMap("shop", map[string]string{"COLOUR": "red"})))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "configured", "plain red sesame cheap", time.Minute))
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, framework.Secret("secret", nil, map[string]string{"WORD": "open"})))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "configured", "plain red open cheap", time.Minute))

	for _, replicas := range []int32{3, 1} {
		scale(t, cluster, namespace, "configured", replicas)
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "configured", replicas, time.Minute))
	}
}

// scale sets the number of replicas as kubectl scale does.
func scale(t *testing.T, cluster *framework.Cluster, namespace, name string, replicas int32) {
	t.Helper()
	function, err := cluster.Function(t.Context(), namespace, name)
	require.NoError(t, err)
	body := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	require.NoError(t, cluster.SubResource("scale").Update(t.Context(), function, client.WithSubResourceBody(body)))
}
