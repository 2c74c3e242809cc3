package door

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/filter"
)

var now = time.Unix(1792000000, 0)

// mapped compiles a Door of GitHub with a mapping.
func mapped(t *testing.T, event v1alpha1.DoorEvent, types ...string) *Door {
	t.Helper()
	compiled, err := New(&v1alpha1.Door{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hooks"},
		Spec: v1alpha1.DoorSpec{
			Types: types, Webhook: &v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeGitHub, SecretName: "keys", Event: event},
		},
	}, &Keys{Current: []byte("hush")})
	require.NoError(t, err)
	return compiled
}

func pushed() *Request {
	return &Request{
		Header: header("X-GitHub-Event", "push", "X-GitHub-Delivery", "d1", "Content-Type", "application/json; charset=utf-8", "Authorization", "Bearer secret"),
		Body:   []byte(`{"ref":"refs/heads/main","repository":{"full_name":"shop/orders"},"size":9007199254740993,"at":"2026-01-02T03:04:05Z","commits":[{"id":"c1"},{"id":"c2"}]}`),
	}
}

func TestAMappingDecidesWhatBecomesOfARequest(t *testing.T) {
	t.Parallel()
	ev, drop, err := mapped(t, v1alpha1.DoorEvent{
		Type: `"git." + header["x-github-event"] + "." + data.ref.split("/")[2].upperAscii()`, Subject: "event.subject + '@' + data.ref",
		ID: "data.commits[1].id", Time: "data.at", Data: `{"size": data.size, "commits": data.commits.map(c, c.id), "none": null}`, Drop: "size(data.commits) == 0",
	}).Event(pushed(), &Verified{ID: "d1"}, now)
	require.NoError(t, err)
	require.False(t, drop)
	require.Equal(t, []string{"hooks", "git.push.main", "shop/orders@refs/heads/main", "c2", "2026-01-02T03:04:05Z", "application/json"},
		[]string{ev.Source, ev.Type, ev.Subject, ev.ID, ev.Time, ev.DataContentType})
	require.JSONEq(t, `{"size":9007199254740993,"commits":["c1","c2"],"none":null}`, string(ev.Data))
	require.Contains(t, string(ev.Data), "9007199254740993", "whole numbers stay exact")
}

func TestARequestThatIsDroppedBecomesNoEvent(t *testing.T) {
	t.Parallel()
	ev, drop, err := mapped(t, v1alpha1.DoorEvent{Drop: `header["x-github-event"] == "push"`}).Event(pushed(), &Verified{}, now)
	require.NoError(t, err)
	require.True(t, drop)
	require.Nil(t, ev)
}

func TestAMappingThatDoesNotFitIsAnErrorWithoutTheRequest(t *testing.T) {
	t.Parallel()
	for is, event := range map[error]v1alpha1.DoorEvent{
		filter.ErrNotEvaluable: {Subject: "data.missing.name"},
		filter.ErrNotJSON:      {Type: "data.action"},
		filter.ErrTooExpensive: {Drop: "data.commits.all(a, data.list.all(b, data.list.all(c, a != b)))"},
	} {
		r := pushed()
		if errors.Is(is, filter.ErrNotJSON) {
			r.Body = []byte("secret of the sender")
		}
		if errors.Is(is, filter.ErrTooExpensive) {
			r.Body = []byte(`{"commits":[1],"list":[` + strings.Repeat("2,", 2000) + `2]}`)
		}
		_, _, err := mapped(t, event).Event(r, &Verified{}, now)
		require.ErrorIs(t, err, is)
		require.ErrorContains(t, err, "spec.webhook.event.")
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestAnExpressionSeesNoSecretHeader(t *testing.T) {
	t.Parallel()
	_, _, err := mapped(t, v1alpha1.DoorEvent{Subject: `header["authorization"]`}).Event(pushed(), &Verified{}, now)
	require.ErrorIs(t, err, filter.ErrNotEvaluable)
}

func TestAnEventOfATypeThatTheDoorDoesNotTakeIsRefused(t *testing.T) {
	t.Parallel()
	_, _, err := mapped(t, v1alpha1.DoorEvent{}, "github.issues", "github.pull*").Event(pushed(), &Verified{}, now)
	require.ErrorIs(t, err, ErrType)
	_, _, err = mapped(t, v1alpha1.DoorEvent{}, "github.pu*").Event(pushed(), &Verified{}, now)
	require.NoError(t, err)
}

func TestATypeHasOnlyWhatTypesMayHave(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"github.Push": "github.push", "a b/c*>": "a-b-c--", "a..b.": "a.-.b.-", "ü": "-", "": "-", strings.Repeat("a", 200): strings.Repeat("a", mostType),
	} {
		require.Equal(t, want, cleanType(text))
	}
}

func TestDataThatAreNoJSONArePublishedAsOctets(t *testing.T) {
	t.Parallel()
	r := pushed()
	r.Body = []byte("{broken")
	ev, _, err := mapped(t, v1alpha1.DoorEvent{}).Event(r, &Verified{}, now)
	require.NoError(t, err)
	require.Equal(t, octets, ev.DataContentType)
}

func TestTheSourceAndThePathsOfADoorHaveDefaults(t *testing.T) {
	t.Parallel()
	d := &v1alpha1.Door{ObjectMeta: metav1.ObjectMeta{Name: "hooks"}, Spec: v1alpha1.DoorSpec{CloudEvents: &v1alpha1.DoorCloudEvents{}}}
	require.Equal(t, []string{"/"}, Paths(d))
	require.Equal(t, "hooks", sourceOf(d))
	d.Spec.CloudEvents, d.Spec.Application = nil, &v1alpha1.DoorApplication{Name: "commerce"}
	require.Equal(t, []string{"/commerce/v1/events", "/commerce/v2/events", "/commerce/events", "/commerce/v1/events/subscribed"}, Paths(d))
	require.Equal(t, "commerce", sourceOf(d))
}
