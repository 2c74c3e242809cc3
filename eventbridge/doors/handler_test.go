package doors

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// published are the events that a rig has stored.
type published struct {
	mu     sync.Mutex
	events []cloudevent.Event
	err    error
}

func (p *published) Publish(_ context.Context, ev *cloudevent.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.events = append(p.events, *ev)
	}
	return p.err
}

func (p *published) PublishLegacy(ctx context.Context, ev *cloudevent.Event, _ string) error {
	return p.Publish(ctx, ev)
}

func (p *published) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	errs := make([]error, len(events))
	for i, ev := range events {
		errs[i] = p.Publish(ctx, ev)
	}
	return errs
}

func (p *published) ids() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []string
	for i := range p.events {
		ids = append(ids, p.events[i].ID)
	}
	return ids
}

// memoryStore keeps pages in memory.
type memoryStore struct {
	mu    sync.Mutex
	pages []Delivery
	err   error
}

func (m *memoryStore) StoreDeliveries(_ context.Context, _ string, page []Delivery) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.pages = append(m.pages, page...)
	}
	return m.err
}

func (m *memoryStore) FollowDeliveries(ctx context.Context, _ func(string, time.Time, []Delivery), known func()) error {
	known()
	<-ctx.Done()
	return nil
}

func (m *memoryStore) ReportDoors(string, []byte) error { return nil }

// rig is a bridge's Doors with a clock.
type rig struct {
	*Doors

	stored   *published
	store    *memoryStore
	registry *prometheus.Registry
	now      time.Time
	allow    error
}

const token = "gateway-token"

func newRig(t *testing.T, known ...door.Known) *rig {
	t.Helper()
	r := &rig{stored: &published{}, store: &memoryStore{}, registry: prometheus.NewRegistry(), now: time.Unix(1792000000, 0)}
	to := ingress.New(ingress.Deps{
		Publisher: r.stored, Registerer: prometheus.NewRegistry(), Log: logr.Discard(), Connected: func() bool { return true },
		Authorize: func(context.Context, string) (ingress.Permission, error) { return nil, ingress.ErrUnauthenticated },
	}, ingress.DefaultOptions())
	options := DefaultOptions()
	options.MaxBody, options.MaxBytes = 64<<10, 1<<20
	r.Doors = New(Deps{
		Ingress: to, Store: r.store, Now: func() time.Time { return r.now }, Registerer: r.registry, Log: logr.Discard(),
		Gateway: func(_ context.Context, given string) error {
			if given != token {
				return errors.New("no gateway")
			}
			return nil
		},
		Allow: func(string, *cloudevent.Event) error { return r.allow },
	}, options)
	r.set(known)
	r.ledger.ready = true
	return r
}

// github is a Door of a namespace.
func github(namespace string, change func(*v1alpha1.DoorSpec)) door.Known {
	d := &v1alpha1.Door{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "github", UID: types.UID(namespace), Generation: 1},
		Spec: v1alpha1.DoorSpec{
			Source: "git", RequestsPerSecond: 100, Webhook: &v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeGitHub, SecretName: "github"},
		},
	}
	change(&d.Spec)
	return door.Known{Door: d, Keys: &door.Keys{Current: []byte("hush")}}
}

func unchanged(*v1alpha1.DoorSpec) {}

// delivery is a signed request of GitHub.
func delivery(id, body string) *http.Request {
	mac := hmac.New(sha256.New, []byte("hush"))
	_, _ = io.WriteString(mac, body)
	r := httptest.NewRequest(http.MethodPost, "/github", strings.NewReader(body))
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	r.Header.Set("X-Github-Delivery", id)
	r.Header.Set("X-Github-Event", "push")
	r.Header.Set("Content-Type", "application/json")
	return r
}

// send sends a request as a gateway does, for a Door of namespace shop.
func (r *rig) send(request *http.Request) *httptest.ResponseRecorder {
	return r.sendTo("shop/github", "192.0.2.1", request)
}

func (r *rig) sendTo(name, sender string, request *http.Request) *httptest.ResponseRecorder {
	request.Header.Set(door.HeaderToken, token)
	request.Header.Set(door.HeaderDoor, name)
	request.Header.Set(door.HeaderSender, sender)
	w := httptest.NewRecorder()
	r.ServeHTTP(w, request)
	return w
}

func TestASignedDeliveryIsStoredOnceAsAnEventOfItsNamespace(t *testing.T) {
	t.Parallel()
	r := newRig(t, github("shop", unchanged))
	for range 3 {
		require.Equal(t, http.StatusNoContent, r.send(delivery("d1", `{"a":1}`)).Code)
	}
	require.Equal(t, []string{"d1"}, r.stored.ids())
	stored := r.stored.events[0]
	require.Equal(t, []string{"shop", "git", "github.push", "github"}, []string{stored.Publisher, stored.Source, stored.Type, stored.Extension(door.ExtensionDoor)})
	require.InDelta(t, 1, testutil.ToFloat64(r.metrics.requests.WithLabelValues("shop", "github", string(accepted))), 0)
	require.InDelta(t, 2, testutil.ToFloat64(r.metrics.requests.WithLabelValues("shop", "github", string(repeated))), 0)
}

func TestADeliveryThatIsRepeatedHoursLaterByAnotherReplicaIsKnown(t *testing.T) {
	t.Parallel()
	r, other := newRig(t, github("shop", unchanged)), newRig(t, github("shop", unchanged))
	r.send(delivery("d1", `{"a":1}`))
	r.ledger.flush(t.Context())
	other.ledger.remember("shop", r.now, r.store.pages)
	other.now = r.now.Add(71 * time.Hour)
	require.Equal(t, http.StatusNoContent, other.send(delivery("d1", `{"a":1}`)).Code)
	require.Empty(t, other.stored.ids())
}

func TestTheSameIDWithAnotherBodyIsAConflict(t *testing.T) {
	t.Parallel()
	r := newRig(t, github("shop", unchanged))
	r.send(delivery("d1", `{"a":1}`))
	require.Equal(t, http.StatusConflict, r.send(delivery("d1", `{"a":2}`)).Code)
	require.Equal(t, http.StatusNoContent, r.send(delivery("d2", `{"a":1}`)).Code, "a replay with an id that is not signed")
	require.Equal(t, []string{"d1"}, r.stored.ids())
}

func TestADeliveryThatCannotBeStoredIsNotKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t, github("shop", unchanged))
	r.stored.err = failure.ErrStorageFull
	answered := r.send(delivery("d1", `{"a":1}`))
	require.Equal(t, http.StatusInsufficientStorage, answered.Code)
	require.NotEmpty(t, answered.Header().Get("Retry-After"))
	r.stored.err = nil
	require.Equal(t, http.StatusNoContent, r.send(delivery("d1", `{"a":1}`)).Code)
	require.Equal(t, []string{"d1"}, r.stored.ids())
}

func TestAStrangerIsToldTheSameForEveryReasonAndTheOwnerWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t, github("shop", unchanged))
	reasons := map[door.RefusalError]func(*http.Request){
		door.ErrNoSignature: func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") },
		door.ErrMalformed:   func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha1=00") },
		door.ErrSignature:   func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("00", 32)) },
	}
	for reason, change := range reasons {
		request := delivery("d1", `{}`)
		change(request)
		answered := r.send(request)
		require.Equal(t, http.StatusUnauthorized, answered.Code)
		require.Equal(t, unauthorized, answered.Body.String())
		require.Equal(t, string(reason), r.reports.take()[0]["shop"].Reason)
	}
	require.Empty(t, r.stored.ids())
}

func TestOnlyGatewaysAndKnownDoorsAreAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, github("shop", unchanged))
	require.Equal(t, http.StatusNotFound, r.sendTo("shop/other", "192.0.2.1", delivery("d1", `{}`)).Code)
	request := delivery("d1", `{}`)
	request.Header.Set(door.HeaderDoor, "shop/github")
	w := httptest.NewRecorder()
	r.ServeHTTP(w, request)
	require.Equal(t, http.StatusNotFound, w.Code, "without a gateway's token")
	require.Empty(t, r.stored.ids())
}

func TestABodyThatIsTooLargeIsRefusedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, github("shop", unchanged))
	require.Equal(t, http.StatusRequestEntityTooLarge, r.send(delivery("d1", strings.Repeat("a", 64<<10+1))).Code)
	unannounced := delivery("d1", strings.Repeat("a", 64<<10+1))
	unannounced.ContentLength = -1
	require.Equal(t, http.StatusRequestEntityTooLarge, r.send(unannounced).Code)
	for i := range 100 {
		require.Equal(t, http.StatusNoContent, r.send(delivery("d"+strconv.Itoa(i), strings.Repeat("a", 60<<10)+strconv.Itoa(i))).Code, "all memory is free again")
		r.now = r.now.Add(time.Second)
	}
}

func TestStrangersDoNotTakeTheShareOfASenderWhoWasVerified(t *testing.T) {
	t.Parallel()
	r := newRig(t, github("shop", func(s *v1alpha1.DoorSpec) { s.RequestsPerSecond = 5 }), github("bank", unchanged))
	require.Equal(t, http.StatusNoContent, r.send(delivery("d1", `{"a":1}`)).Code)
	limitedOnes := 0
	for i := range 100 {
		forged := delivery("x", `{}`)
		forged.Header.Set("X-Hub-Signature-256", "sha256=00")
		if r.sendTo("shop/github", "198.51.100."+string(rune('0'+i%10)), forged).Code == http.StatusTooManyRequests {
			limitedOnes++
		}
	}
	require.Greater(t, limitedOnes, 80)
	require.Equal(t, http.StatusNoContent, r.send(delivery("d2", `{"a":2}`)).Code, "the sender that was verified")
	require.Equal(t, http.StatusNoContent, r.sendTo("bank/github", "198.51.100.1", delivery("d3", `{"a":3}`)).Code, "another Door")
}

func TestAnEventThatTheNamespaceMayNotPublishIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, github("shop", unchanged))
	r.allow = errors.New("shop may not publish github.push")
	require.Equal(t, http.StatusForbidden, r.send(delivery("d1", `{}`)).Code)
	require.Contains(t, r.reports.take()[0]["shop"].Reason, "may not publish")
}

func TestAChallengeIsAnsweredOnlyToTheProvider(t *testing.T) {
	t.Parallel()
	slack := github("shop", func(s *v1alpha1.DoorSpec) { s.Webhook.Scheme = v1alpha1.SchemeSlack })
	r := newRig(t, slack)
	body := `{"type":"url_verification","challenge":"c1"}`
	request := delivery("", body)
	request.Header.Set("X-Slack-Request-Timestamp", "1792000000")
	mac := hmac.New(sha256.New, []byte("hush"))
	_, _ = io.WriteString(mac, "v0:1792000000:"+body)
	request.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
	answered := r.send(request)
	require.Equal(t, []any{http.StatusOK, "c1"}, []any{answered.Code, answered.Body.String()})
	stranger := delivery("", body)
	require.Equal(t, http.StatusUnauthorized, r.send(stranger).Code)
	require.Empty(t, r.stored.ids())
}

// cloudEvents is a Door whose senders know a key.
func cloudEvents() door.Known {
	return github("shop", func(s *v1alpha1.DoorSpec) {
		s.Webhook, s.CloudEvents, s.Key = nil, &v1alpha1.DoorCloudEvents{Origins: []string{"events.example.com"}}, &v1alpha1.DoorKey{SecretName: "github"}
		s.Types = []string{"order.*"}
	})
}

func structured(source, eventType string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"specversion":"1.0","id":"1","source":"`+source+`","type":"`+eventType+`"}`))
	r.Header.Set("Content-Type", "application/cloudevents+json")
	r.Header.Set("Authorization", "Bearer hush")
	return r
}

func TestACloudEventKeepsItsIDAndTypeAndMustHaveTheDoorsSource(t *testing.T) {
	t.Parallel()
	r := newRig(t, cloudEvents())
	require.Equal(t, http.StatusNoContent, r.send(structured("git", "order.received")).Code)
	require.Equal(t, "github", r.stored.events[0].Extension(door.ExtensionDoor))
	require.Equal(t, http.StatusForbidden, r.send(structured("bank", "order.received")).Code)
	require.Equal(t, http.StatusForbidden, r.send(structured("git", "price.changed")).Code)
	without := structured("git", "order.received")
	without.Header.Set("Authorization", "Bearer other")
	require.Equal(t, http.StatusUnauthorized, r.send(without).Code)
	require.Len(t, r.stored.ids(), 1)
}

func TestTheHandshakeNamesTheOriginThatTheOwnerAllows(t *testing.T) {
	t.Parallel()
	r := newRig(t, cloudEvents())
	ask := func(origin string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodOptions, "/", http.NoBody)
		request.Header.Set("Webhook-Request-Origin", origin)
		return r.send(request)
	}
	allowed := ask("events.example.com")
	require.Equal(t, []string{"events.example.com", "6000"}, []string{allowed.Header().Get("Webhook-Allowed-Origin"), allowed.Header().Get("Webhook-Allowed-Rate")})
	refusedOne := ask("evil.example.com")
	require.Equal(t, http.StatusMethodNotAllowed, refusedOne.Code)
	require.Empty(t, refusedOne.Header().Get("Webhook-Allowed-Origin"))
}

func TestADoorThatChangesTakesItsNewKeyAtOnce(t *testing.T) {
	t.Parallel()
	known := github("shop", unchanged)
	r := newRig(t, known)
	known.Keys = &door.Keys{Current: []byte("new"), Previous: []byte("hush")}
	r.set([]door.Known{known})
	require.Equal(t, http.StatusNoContent, r.send(delivery("d1", `{"a":1}`)).Code, "by the previous key")
	require.Equal(t, door.KeyPrevious, r.reports.take()[0]["shop"].Key)
	known.Keys = &door.Keys{Current: []byte("new")}
	r.set([]door.Known{known})
	require.Equal(t, http.StatusUnauthorized, r.send(delivery("d2", `{"a":2}`)).Code)
	r.set(nil)
	require.Equal(t, http.StatusNotFound, r.send(delivery("d3", `{"a":3}`)).Code)
}

func TestNoMoreDoorsOfANamespaceAreServedThanItMayHave(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.options.Share.Doors = 1
	first, second := github("shop", unchanged), github("shop", unchanged)
	second.Door.Name, second.Door.UID, second.Door.CreationTimestamp = "second", "second", metav1.Now()
	r.set([]door.Known{first, second})
	require.NotNil(t, r.find("shop/github"))
	require.Nil(t, r.find("shop/second"))
}

func TestANamespaceThatComputesLeavesPlacesToOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, github("shop", unchanged), github("bank", unchanged))
	taken := 0
	for r.work.TryAcquire("shop", 1) {
		taken++
	}
	require.Equal(t, computing/2, taken)
	require.Equal(t, http.StatusNoContent, r.sendTo("bank/github", "192.0.2.1", delivery("d1", `{}`)).Code)
}

func TestACertificateThatWasVerifiedCountsUntilItEndsOrTheDoorChanges(t *testing.T) {
	t.Parallel()
	pair, err := loopback.MakeClient("commerce", nil)
	require.NoError(t, err)
	block, _ := pem.Decode(pair.Certificate)
	known := func(subject string, generation int64) door.Known {
		k := github("shop", func(s *v1alpha1.DoorSpec) {
			s.Webhook, s.CloudEvents = nil, &v1alpha1.DoorCloudEvents{}
			s.ClientCertificates = &v1alpha1.DoorClientCertificates{CA: string(pair.Certificate), Subjects: []string{subject}}
		})
		k.Door.Generation = generation
		return k
	}
	r := newRig(t, known("commerce", 1))
	r.now = time.Now()
	send := func(chain string) int {
		request := structured("git", "order.received")
		request.Header.Set(door.HeaderCertificates, chain)
		return r.send(request).Code
	}
	chain := base64.StdEncoding.EncodeToString(block.Bytes)
	for range 2 {
		require.Equal(t, http.StatusNoContent, send(chain))
	}
	for _, other := range []string{"", "AAAA", "!", chain + "," + chain + "," + chain + "," + chain + "," + chain} {
		require.Equal(t, http.StatusUnauthorized, send(other))
	}
	r.now = r.now.Add(2 * time.Hour)
	require.Equal(t, http.StatusUnauthorized, send(chain), "it has ended")
	r.now = time.Now()
	r.set([]door.Known{known("billing", 2)})
	require.Equal(t, http.StatusUnauthorized, send(chain), "another may send now")
}
