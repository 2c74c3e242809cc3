package v1alpha1_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// apply makes a Schedule with a spec in YAML.
func apply(t *testing.T, namespace, spec string) error {
	t.Helper()
	object := envtest.Object(t, "apiVersion: rouse.run/v1alpha1\nkind: Schedule\nmetadata: {generateName: s-, namespace: "+namespace+"}\nspec: "+spec)
	return cluster.Environment(t).Client.Create(t.Context(), object)
}

func TestAScheduleThatCannotBeIsRefusedByItsSchema(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	for name, tc := range map[string]struct{ spec, message string }{
		"no time":              {`{event: {type: a}}`, "set exactly one of cron, every and at"},
		"two times":            {`{cron: "@daily", every: 1h, event: {type: a}}`, "set exactly one of cron, every and at"},
		"no event":             {`{cron: "@daily"}`, "spec.event: Required value"},
		"no type":              {`{cron: "@daily", event: {}}`, "spec.event.type: Required value"},
		"a zone of every":      {`{every: 1h, timeZone: Europe/Berlin, event: {type: a}}`, "timeZone belongs to cron"},
		"a policy":             {`{cron: "@daily", missed: {policy: Maybe}, event: {type: a}}`, "spec.missed.policy: Unsupported value"},
		"a limit":              {`{cron: "@daily", missed: {limit: 1000000}, event: {type: a}}`, "spec.missed.limit"},
		"a duration in days":   {`{every: 1d, event: {type: a}}`, "spec.every"},
		"a negative duration":  {`{every: -1h, event: {type: a}}`, "spec.every"},
		"a date":               {`{at: "2027-01-01", event: {type: a}}`, "spec.at"},
		"a time in lower case": {`{at: "2027-01-01t00:00:00z", event: {type: a}}`, "spec.at"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := apply(t, namespace, tc.spec)
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, tc.message)
		})
	}
}

// One object that does not decode would make the list of all unreadable, for all namespaces.
func TestNoScheduleThatTheAPIServerAcceptsFailsToDecode(t *testing.T) {
	t.Parallel()
	environment := cluster.Environment(t)
	namespace := environment.Namespace(t)
	strange := []string{`""`, `"0"`, `"99999999h99999999h"`, `"9999-99-99T99:99:99Z"`, `"2027-01-01T00:00:60Z"`, `"2027-13-01T00:00:00+99:99"`, `1`, `1.5`, `true`, `null`, `[]`, `{}`, `"!"`, `"AQI"`}
	accepted := 0
	for _, value := range strange {
		for _, spec := range []string{
			`{cron: ` + value + `, event: {type: a}}`, `{every: ` + value + `, event: {type: a}}`, `{at: ` + value + `, event: {type: a}}`,
			`{cron: "@daily", startAt: ` + value + `, endAt: ` + value + `, event: {type: a}}`,
			`{cron: "@daily", jitter: ` + value + `, wakeAhead: ` + value + `, missed: {deadline: ` + value + `}, event: {type: a}}`,
			`{cron: "@daily", event: {type: a, data: ` + value + `}}`, `{cron: "@daily", event: {type: a, dataBase64: ` + value + `}}`,
			`{cron: "@daily", event: {type: a, extensions: ` + value + `}}`, `{cron: "@daily", missed: ` + value + `, event: {type: a}}`,
		} {
			if apply(t, namespace, spec) == nil {
				accepted++
			}
		}
	}
	require.Greater(t, accepted, 20)
	list := &v1alpha1.ScheduleList{}
	require.NoError(t, environment.Client.List(t.Context(), list, client.InNamespace(namespace)))
	require.Len(t, list.Items, accepted)
}

func TestASchedulesDefaultsAreTheDocumentedOnes(t *testing.T) {
	t.Parallel()
	environment := cluster.Environment(t)
	namespace := environment.Namespace(t)
	require.NoError(t, apply(t, namespace, `{cron: "@daily", event: {type: a, data: {any: [1, "two"]}}}`))
	list := &v1alpha1.ScheduleList{}
	require.NoError(t, environment.Client.List(t.Context(), list, client.InNamespace(namespace)))
	require.Equal(t, v1alpha1.Missed{Policy: v1alpha1.MissedOne, Limit: 100}, list.Items[0].Spec.Missed)
	require.JSONEq(t, `{"any":[1,"two"]}`, string(list.Items[0].Spec.Event.Data.Raw))
}
