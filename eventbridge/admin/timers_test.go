package admin

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/eventbridge/timers"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// fakeTimers knows one Schedule and one delayed event, both of the namespace shop.
type fakeTimers struct {
	err       error
	cancelled string
	ran       types.NamespacedName
}

func (f *fakeTimers) DelayedEvents(namespace string) []timers.Delayed {
	if namespace != "" && namespace != "shop" {
		return nil
	}
	return []timers.Delayed{{ID: "d1", Due: time.Unix(60, 0), Namespace: "shop"}}
}

func (f *fakeTimers) DelayedEvent(context.Context, string, string) (timers.Delayed, *cloudevent.Event, error) {
	return timers.Delayed{}, &cloudevent.Event{ID: "1", Source: "shop", Type: "order.v1"}, f.err
}

func (f *fakeTimers) CancelDelayed(_ context.Context, _, id string) error {
	f.cancelled = id
	return f.err
}

func (f *fakeTimers) Schedules(string) []timers.ScheduleState {
	return []timers.ScheduleState{{
		Schedule: &v1alpha1.Schedule{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly"},
			Spec:       v1alpha1.ScheduleSpec{Cron: "0 2 * * *", TimeZone: "Europe/Berlin", Event: v1alpha1.ScheduledEvent{Type: "report.v1"}},
		},
		Cursor: timers.Cursor{LastDue: time.Unix(60, 0), Published: 3, Missed: 1}, Next: time.Unix(120, 0),
	}}
}

func (f *fakeTimers) RunSchedule(_ context.Context, name types.NamespacedName) (string, error) {
	f.ran = name
	return "id1", f.err
}

func askTimers(f Timers, access identity.Access, method, path, body string) (int, string) {
	h := New(Deps{Store: &fakeStore{}, Wakes: journal.NewWakes(), Timers: f, Access: access, Log: logr.Discard()})
	answered := ask(h, method, path, body)
	return answered.Code, answered.Body.String()
}

func TestSchedulesAndDelayedEventsAreListedCancelledAndRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ method, path, body, want string }{
		"delayed events": {"GET", "/v1/delayed", "", `{"delayed":[{"id":"d1","due":"1970-01-01T00:01:00Z","namespace":"shop","source":"shop","type":"order.v1","eventID":"1"}],"total":1}`},
		"none":           {"GET", "/v1/delayed?namespace=bank&limit=5", "", `{"delayed":[],"total":0}`},
		"a cancellation": {"POST", "/v1/delayed/cancel", `{"namespace":"shop","id":"d1"}`, `{}`},
		"Schedules": {"GET", "/v1/schedules", "", `{"schedules":[{"namespace":"shop","name":"nightly","when":"0 2 * * * Europe/Berlin","type":"report.v1","source":"shop",` +
			`"last":"1970-01-01T00:01:00Z","next":"1970-01-01T00:02:00Z","published":3,"missed":1}]}`},
		"a run": {"POST", "/v1/schedules/run", `{"namespace":"shop","name":"nightly"}`, `{"id":"id1"}`},
	} {
		status, body := askTimers(&fakeTimers{}, identity.Token(token), tc.method, tc.path, tc.body)
		require.Equal(t, http.StatusOK, status, name)
		require.Equal(t, tc.want+"\n", body, name)
	}
}

func TestTimersNeedARightInTheNamespaceThatIsNamed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, path, body string
		want               identity.Right
	}{
		{"GET", "/v1/delayed", "", identity.ListDelayed("")},
		{"GET", "/v1/delayed?namespace=shop", "", identity.ListDelayed("shop")},
		{"POST", "/v1/delayed/cancel", `{"id":"d1"}`, identity.CancelDelayed("")},
		{"POST", "/v1/delayed/cancel", `{"namespace":"shop","id":"d1"}`, identity.CancelDelayed("shop")},
		{"GET", "/v1/schedules?namespace=shop", "", identity.ListSchedules("shop")},
		{"POST", "/v1/schedules/run", `{"namespace":"shop","name":"nightly"}`, identity.RunSchedule("shop")},
	} {
		access, fake := &fakeAccess{denied: identity.ForbiddenError{User: "alice", Right: tc.want}}, &fakeTimers{}
		status, body := askTimers(fake, access, tc.method, tc.path, tc.body)
		require.Equal(t, http.StatusForbidden, status)
		require.Contains(t, body, "alice may not "+tc.want.String())
		require.Equal(t, []identity.Right{tc.want}, access.asked)
		require.Empty(t, fake.cancelled)
		require.Empty(t, fake.ran)
	}
}

func TestWhatTimersCannotDoSaysWhy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err        error
		path, body string
		want       int
	}{
		{failure.ErrNoDelayed, "/v1/delayed/cancel", `{"namespace":"shop","id":"d2"}`, http.StatusNotFound},
		{timers.ErrNoSchedule, "/v1/schedules/run", `{"namespace":"shop","name":"none"}`, http.StatusNotFound},
		{timers.ErrForbidden, "/v1/schedules/run", `{"namespace":"shop","name":"nightly"}`, http.StatusForbidden},
		{&failure.InvalidEventError{Reason: "spec.event"}, "/v1/schedules/run", `{"namespace":"shop","name":"nightly"}`, http.StatusUnprocessableEntity},
		{failure.ErrNotConnected, "/v1/schedules/run", `{"namespace":"shop","name":"nightly"}`, http.StatusServiceUnavailable},
		{nil, "/v1/delayed/cancel", `{"namespace":"shop"}`, http.StatusBadRequest},
		{nil, "/v1/schedules/run", `{"name":"nightly"}`, http.StatusBadRequest},
		{nil, "/v1/schedules/run", `{"namespace":"shop","name":"nightly","all":true}`, http.StatusBadRequest},
	} {
		status, body := askTimers(&fakeTimers{err: tc.err}, identity.Token(token), "POST", tc.path, tc.body)
		require.Equal(t, tc.want, status, body)
	}
	status, _ := askTimers(nil, identity.Token(token), "GET", "/v1/delayed", "")
	require.Equal(t, http.StatusNotFound, status, "an installation without")
}
