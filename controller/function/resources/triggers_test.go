package resources

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func allowedTypes() []string { return []string{"cpu", "memory", "cron"} }

func TestTriggersAreThoseOfAScaledObject(t *testing.T) {
	t.Parallel()
	triggers, err := TriggersOf(map[string]string{"rouse.run/triggers": `
- type: cpu
  metricType: Utilization
  metadata: {value: 50}
- {type: cron, name: office, metadata: {timezone: Europe/Berlin, start: 0 8 * * *, end: 0 18 * * *, desiredReplicas: "2"}, authenticationRef: {name: own}}
`}, allowedTypes())
	require.NoError(t, err)
	require.Equal(t, []Trigger{
		{Type: "cpu", MetricType: "Utilization", Metadata: map[string]string{"value": "50"}},
		{
			Type: "cron", Name: "office", AuthenticationRef: &TriggerAuthentication{Name: "own"},
			Metadata: map[string]string{"timezone": "Europe/Berlin", "start": "0 8 * * *", "end": "0 18 * * *", "desiredReplicas": "2"},
		},
	}, triggers)

	triggers, err = TriggersOf(nil, allowedTypes())
	require.NoError(t, err)
	require.Empty(t, triggers)
}

func TestAWrongTriggerIsNamedWithTheRemedy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"no list":                    {"cpu", "annotation rouse.run/triggers must be a list of triggers like spec.triggers of a ScaledObject"},
		"an unknown field":           {"[{type: cpu, metadat: {}}]", `unknown field "metadat"`},
		"a list as metadata":         {"[{type: cpu, metadata: {value: [50]}}]", "must be a list of triggers"},
		"no type":                    {"[{metadata: {}}]", "trigger 1: type is missing: set it to one of cpu, memory, cron"},
		"a type of the operator's":   {"[{type: cpu}, {type: prometheus}]", `trigger 2: type "prometheus" is not among those that this installation allows, cpu, memory, cron: its operator can add it to functions.triggerTypes`},
		"credentials of the cluster": {"[{type: cron, authenticationRef: {name: aws, kind: ClusterTriggerAuthentication}}]", `authenticationRef.kind "ClusterTriggerAuthentication" is not allowed`},
		"too many":                   {strings.Repeat("- {type: cpu}\n", 9), "has 9 triggers: at most 8 are allowed"},
		"too long":                   {strings.Repeat(" ", 2049), "is longer than 2048 bytes"},
	} {
		triggers, err := TriggersOf(map[string]string{"rouse.run/triggers": tc.text}, allowedTypes())
		require.ErrorContains(t, err, tc.want, name)
		require.Empty(t, triggers, name)
	}
}

func FuzzTriggersOf(f *testing.F) {
	f.Add("- {type: cpu, metadata: {value: '50'}}")
	f.Add("[{type: cron, authenticationRef: {kind: x}}]")
	f.Fuzz(func(t *testing.T, text string) {
		triggers, err := TriggersOf(map[string]string{"rouse.run/triggers": text}, allowedTypes())
		for _, trigger := range triggers {
			require.NoError(t, err)
			require.Contains(t, allowedTypes(), trigger.Type)
		}
	})
}
