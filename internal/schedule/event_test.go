package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

func withEvent(event v1alpha1.ScheduledEvent) *v1alpha1.Schedule {
	return nightly(func(s *v1alpha1.Schedule) {
		event.Type = "report.due.v1"
		s.Spec.Cron, s.Spec.Event = "@daily", event
	})
}

func TestTheEventOfATickIsTheSameWhoeverPublishesIt(t *testing.T) {
	t.Parallel()
	s := withEvent(v1alpha1.ScheduledEvent{
		Subject: "{{namespace}}/{{name}}", Extensions: map[string]string{"day": "{{due}}"},
		Data: &apiextensionsv1.JSON{Raw: []byte(`{"until": "{{due}}", "name": "{{name}}"}`)},
	})
	tick := Tick{Due: created.Add(1500 * time.Millisecond), Missed: 2}
	e := Event(s, tick)
	require.Equal(t, "u1/2026-01-01T00:00:01.5Z", e.ID)
	require.Equal(t, "shop", e.Source, "the namespace")
	require.Equal(t, "report.due.v1", e.Type)
	require.Equal(t, "shop/nightly", e.Subject)
	require.Equal(t, "2026-01-01T00:00:01.5Z", e.Time)
	require.Equal(t, "application/json", e.DataContentType)
	require.JSONEq(t, `{"until":"2026-01-01T00:00:01.5Z","name":"nightly"}`, string(e.Data))
	require.Equal(t, "2026-01-01T00:00:01.5Z", e.Extension("day"))
	require.Equal(t, "nightly", e.Extension(ExtensionSchedule))
	require.Equal(t, "2", e.Extension(ExtensionMissed))
	require.Equal(t, e, Event(s, tick))
}

func TestAManualRunHasAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	s := withEvent(v1alpha1.ScheduledEvent{})
	now := created.Add(time.Nanosecond)
	require.Equal(t, "u1/manual/2026-01-01T00:00:00.000000001Z", ManualEvent(s, now).ID)
	require.Equal(t, "2026-01-01T00:00:00Z", ManualEvent(s, now).Time)
}

func TestDataArePublishedAsTheirTypeSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event       v1alpha1.ScheduledEvent
		data, media string
	}{
		"none":              {v1alpha1.ScheduledEvent{}, "", ""},
		"a string as JSON":  {v1alpha1.ScheduledEvent{Data: &apiextensionsv1.JSON{Raw: []byte(`"a b"`)}}, `"a b"`, "application/json"},
		"a string as text":  {v1alpha1.ScheduledEvent{DataContentType: "text/plain", Data: &apiextensionsv1.JSON{Raw: []byte(`"a b"`)}}, `a b`, "text/plain"},
		"JSON of a vendor":  {v1alpha1.ScheduledEvent{DataContentType: "application/x+json", Data: &apiextensionsv1.JSON{Raw: []byte(`"a"`)}}, `"a"`, "application/x+json"},
		"bytes":             {v1alpha1.ScheduledEvent{DataContentType: "image/png", DataBase64: "AQI="}, "\x01\x02", "image/png"},
		"spaces are needed": {v1alpha1.ScheduledEvent{Data: &apiextensionsv1.JSON{Raw: []byte(`{ "a" : [ 1 ] }`)}}, `{"a":[1]}`, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := withEvent(c.event)
			require.NoError(t, CheckEvent(s))
			e := Event(s, Tick{Due: created})
			require.Equal(t, c.data, string(e.Data))
			require.Equal(t, c.media, e.DataContentType)
		})
	}
}

func TestAnEventThatCannotBePublishedNamesTheField(t *testing.T) {
	t.Parallel()
	for message, event := range map[string]v1alpha1.ScheduledEvent{
		`spec.event.extensions: "Day" must have 1 to 20 lower-case`:      {Extensions: map[string]string{"Day": ""}},
		`spec.event.extensions: "source" is an attribute`:                {Extensions: map[string]string{"source": "x"}},
		`spec.event.extensions: "rousemissed" is set by Rouse`:           {Extensions: map[string]string{"rousemissed": "0"}},
		`spec.event.extensions: "long" has 2000 bytes, at most 1024 fit`: {Extensions: map[string]string{"long": strings.Repeat("x", 2000)}},
		`spec.event.dataBase64 must be the base64`:                       {DataBase64: "?"},
		`spec.event has data and dataBase64: keep one`:                   {DataBase64: "AQI=", Data: &apiextensionsv1.JSON{Raw: []byte("1")}},
		`spec.event.data has 70000 bytes, at most 65536 fit`:             {Data: &apiextensionsv1.JSON{Raw: []byte(`"` + strings.Repeat("x", 69998) + `"`)}},
		`spec.event: `: {Subject: "a\xffb"},
	} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			_, err := New(withEvent(event))
			require.ErrorContains(t, err, message)
		})
	}
}
