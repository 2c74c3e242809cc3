package eventbridge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/otlptest"
)

// tokens accepts tokens of the form namespace/name.
type tokens struct{}

func (tokens) Review(_ context.Context, token, audience string) (identity.Account, error) {
	namespace, name, ok := strings.Cut(token, "/")
	switch {
	case token == "away":
		return identity.Account{}, errors.New("the API server is away")
	case !ok || audience != routing.DefaultAudience:
		return identity.Account{}, identity.ErrUnknown
	default:
		return identity.Account{Namespace: namespace, Name: name}, nil
	}
}

func (w *fixture) startWithRules(t *testing.T, rules string) *replica {
	t.Helper()
	return w.start(t, func(deps *Deps, options *Options) {
		deps.Tokens = tokens{}
		require.NoError(t, options.Sinks.Access.Set(rules))
	})
}

func (r *replica) publishAs(t *testing.T, token, path, contentType, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", contentType)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := loopback.Default.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NotContains(t, string(content), "away:")
	return resp.StatusCode, string(content)
}

func TestPublishingNeedsAnAccessRule(t *testing.T) {
	t.Parallel()
	w := newFixture(t, loopback.Ready("127.0.0.1:1"))
	bridge := w.startWithRules(t, `{"publish":{"rules":[{"serviceAccounts":["shop/checkout"],"sources":["shop"]}]}}`)
	const one, batch = "application/cloudevents+json", "application/cloudevents-batch+json"
	event := func(source string) string {
		return `{"specversion":"1.0","id":"1","source":"` + source + `","type":"order.received.v1"}`
	}
	legacy := `{"event-type":"order.received","event-type-version":"v1","event-time":"2026-01-02T03:04:05Z","data":{}}`
	tests := []struct {
		name, token, path, contentType, body string
		status                               int
		says                                 string
	}{
		{"no token", "", "/publish", one, event("shop"), http.StatusUnauthorized, "Authorization: Bearer"},
		{"a token that was made up", "x", "/publish", one, event("shop"), http.StatusUnauthorized, "Authorization: Bearer"},
		{"no answer about it", "away", "/publish", one, event("shop"), http.StatusServiceUnavailable, "cannot be checked now"},
		{"another account", "red/default", "/publish", one, event("shop"), http.StatusForbidden, `ServiceAccount red/default publish events of source "shop"`},
		{"another source", "shop/checkout", "/publish", one, event("bank"), http.StatusForbidden, `source "bank"`},
		{"a batch without a token", "", "/publish", batch, "[" + event("shop") + "]", http.StatusUnauthorized, "Authorization: Bearer"},
		{"a batch with one of another", "shop/checkout", "/publish", batch, "[" + event("shop") + "," + event("bank") + "]", http.StatusForbidden, `"status":403`},
		{"a legacy event without a token", "", "/shop/v1/events", "application/json", legacy, http.StatusUnauthorized, `"status":401`},
		{"a legacy event of another", "shop/checkout", "/bank/v1/events", "application/json", legacy, http.StatusForbidden, `"status":403`},
		{"what is allowed", "shop/checkout", "/publish", one, event("shop"), http.StatusNoContent, ""},
	}
	for _, tc := range tests {
		status, text := bridge.publishAs(t, tc.token, tc.path, tc.contentType, tc.body)
		require.Equal(t, tc.status, status, "%s: %s", tc.name, text)
		require.Contains(t, text, tc.says, tc.name)
	}
	_, metrics := get(t, bridge.metricsURL+"/metrics")
	require.Contains(t, metrics, `rouse_eventbridge_publish_denials_total{namespace="red",reason="forbidden"} 1`)
	require.Contains(t, metrics, `rouse_eventbridge_publish_denials_total{namespace="",reason="unauthenticated"} 4`)
}

func TestNoAccountSuppressesAnEventThatAnotherOnePublishes(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(sink.Address()))
	bridge := w.startWithRules(t, `{"publish":{"rules":[
		{"serviceAccounts":["shop/checkout","red/default"],"sources":["shop"],"types":["order.received.v1"]},
		{"serviceAccounts":["red/default"],"sources":["shop"],"types":["order.noted.v1"]}]}}`)
	for _, attempt := range []struct{ token, eventType, data string }{
		{"red/default", "order.noted.v1", "red"},    // the right for some type of the source
		{"red/default", "order.received.v1", "red"}, // the right for the very type
		{"shop/checkout", "order.received.v1", "shop"},
		{"shop/checkout", "order.received.v1", "shop"}, // a repeat
	} {
		status, text := bridge.publishAs(t, attempt.token, "/publish", "application/cloudevents+json",
			`{"specversion":"1.0","id":"guessed","source":"shop","type":"`+attempt.eventType+`","data":"`+attempt.data+`"}`)
		require.Equal(t, http.StatusNoContent, status, text)
	}
	w.backlogIs(t, 0, 0)
	var delivered []string
	for _, request := range sink.Requests() {
		delivered = append(delivered, string(request.Body))
	}
	require.ElementsMatch(t, []string{`"red"`, `"shop"`}, delivered)
}

func TestRepliesAreBoundByTheNamespacesAccessRules(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Rousehops") != "" {
			return
		}
		source := "shop"
		if r.Header.Get("Ce-Id") == "0" {
			source = "bank"
		}
		for name, value := range map[string]string{
			"Ce-Specversion": "1.0", "Ce-Id": "next-" + r.Header.Get("Ce-Id"), "Ce-Source": source, "Ce-Type": "order.received.v1",
		} {
			w.Header().Set(name, value)
		}
	})
	w := newFixture(t, loopback.Ready(sink.Address()))
	bridge := w.startWithRules(t, `{"publish":{"rules":[{"serviceAccounts":["shop/*"],"sources":["shop"]}]}}`)
	for _, id := range []string{"0", "1"} {
		status, text := bridge.publishAs(t, "shop/checkout", "/publish", "application/cloudevents+json",
			`{"specversion":"1.0","id":"`+id+`","source":"shop","type":"order.received.v1"}`)
		require.Equal(t, http.StatusNoContent, status, text)
	}
	require.Eventually(t, func() bool { return len(sink.Requests()) == 3 }, timeout, tick)
	w.backlogIs(t, 0, 0)
	_, metrics := get(t, bridge.metricsURL+"/metrics")
	require.Contains(t, metrics, `rouse_eventbridge_publish_denials_total{namespace="shop",reason="forbidden"} 1`)
}

func order(id string) string {
	return `{"specversion":"1.0","id":"` + id + `","source":"shop","type":"order.received.v1","data":{"order":"` + id + `"}}`
}

func TestABatchThatIsSentAgainIsStoredOnce(t *testing.T) {
	t.Parallel()
	const events = 200
	sink := loopback.StartSink(t, nil)
	w := newFixture(t)
	r := w.start(t)
	var batch []string
	for i := range events {
		batch = append(batch, order(strconv.Itoa(i)))
	}
	batch[events/2] = `{"specversion":"1.0","id":"bad"}`
	for range 3 {
		status, body := r.publishBatch(t, batch...)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, `{"id":"bad","status":400,"reason":"source: REQUIRED\ntype: MUST be a non-empty string"}`)
		require.Contains(t, body, `{"id":"199","source":"shop","status":204}`)
	}
	w.backlogIs(t, events-1, 0)
	batch[events/2] = order(strconv.Itoa(events / 2))
	status, body := r.publishBatch(t, batch...)
	require.Equal(t, http.StatusNoContent, status, body)
	w.backlogIs(t, events, 0)

	w.endpoints.Set(loopback.Ready(sink.Address()))
	w.backlogIs(t, 0, 0)
	require.Len(t, sink.Deliveries(), events)
}

func TestEachEventOfABatchHasItsSpan(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	collector := otlptest.Start(t)
	tracer := newTracer(t, collector, 1)
	r := w.start(t, func(deps *Deps, _ *Options) { deps.Tracer = tracer })
	status, _ := r.publishBatch(t, order("1"), `{}`, order("2"))
	require.Equal(t, http.StatusBadRequest, status)
	w.backlogIs(t, 2, 0)
	require.NoError(t, r.stop())
	require.NoError(t, tracer.Close(t.Context()))
	var names []string
	for _, span := range collector.Spans() {
		names = append(names, span.GetName())
	}
	require.Equal(t, []string{"publish order.received.v1", "publish order.received.v1"}, names)
}

// filled is a store that is full.
type filled struct{}

func (filled) Streams() []string                             { return []string{"sap"} }
func (filled) Fill(context.Context, string) (float64, error) { return 1, nil }

func TestABatchIsRefusedBeforeTheStreamIsFull(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.start(t, func(d *Deps, _ *Options) { d.Storage = filled{} })
	var body string
	require.Eventually(t, func() (refused bool) {
		var status int
		status, body = r.publishBatch(t, order("1"), `{}`)
		return status == http.StatusInsufficientStorage
	}, timeout, tick)
	require.JSONEq(t, `[{"id":"1","source":"shop","status":507,`+
		`"reason":"the stream is nearly full and takes no new events until stored ones are delivered"},`+
		`{"status":400,"reason":"the body is not a structured CloudEvent"}]`, body)
}

func TestABatchWithoutNATSMayBeSentAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.start(t)
	status, body := r.publishBatch(t, order("1"))
	require.Equal(t, http.StatusNoContent, status, body)
	w.nats.Stop()
	require.Eventually(t, func() bool {
		status, body = r.publishBatch(t, order("1"), order("2"))
		return status == http.StatusBadGateway
	}, timeout, tick)
	require.Contains(t, body, `{"id":"2","source":"shop","status":502,"reason":"no connection to NATS JetStream server"}`)
	w.nats.Restart()
	require.Eventually(t, func() bool {
		status, body = r.publishBatch(t, order("1"), order("2"))
		return status == http.StatusNoContent
	}, timeout, tick, "%s", body)
	w.backlogIs(t, 2, 0)
}

func (r *replica) post(t *testing.T, path, body string, header map[string]string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(body))
	require.NoError(t, err)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := loopback.Default.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	return resp.StatusCode
}

// delivered returns the requests with a path prefix.
func delivered(server *loopback.Sink, path string) []loopback.Request {
	var found []loopback.Request
	for _, request := range server.Requests() {
		if strings.HasPrefix(request.URI, path) {
			found = append(found, request)
		}
	}
	return found
}

func TestALegacyEventReachesSubscriptionsByItsModernAndItsOldName(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(server.Address()))
	var routes []routing.Route
	for name, spec := range map[string]eventingv1alpha2.SubscriptionSpec{
		"modern": {Source: "my-shop", TypeMatching: eventingv1alpha2.TypeMatchingStandard, Types: []string{"Account.Root.Created.v1"}},
		"old":    {TypeMatching: eventingv1alpha2.TypeMatchingExact, Types: []string{"sap.kyma.custom.myshop.AccountRoot.Created.v1"}},
	} {
		spec.Sink = "http://price.shop.svc.cluster.local/" + name
		route, err := routing.FromSubscription(
			&eventingv1alpha2.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: spec}, routing.Policy{},
		)
		require.NoError(t, err)
		ensureConsumer(t, w.conn, route, w.ackWait)
		routes = append(routes, route)
	}
	w.routes.set(routes...)
	r := w.start(t)

	const id = "a1b2c3d4-0000-4000-8000-00000000000f"
	require.Equal(t, http.StatusOK, r.post(t, "/my-shop/v1/events", `{"event-type":"Account.Root.Created","event-type-version":"v1",
		"event-id":"`+id+`","event-time":"2026-01-02T03:04:05Z","data":{"n":1.50}}`, nil))
	require.Equal(t, http.StatusNoContent, r.post(t, "/publish", `{"n":1.50}`, map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": "2", "Ce-Source": "crm", "Content-Type": "application/json",
		"Ce-Type": "sap.kyma.custom.my-shop.Account.Root.Created.v1",
	}), "publishers may write the old format themselves")
	server.Await(t, 3)

	modern := delivered(server, "/modern")
	require.Len(t, modern, 1)
	require.Equal(t, id, modern[0].Header.Get("Ce-Id"))
	require.Equal(t, "my-shop", modern[0].Header.Get("Ce-Source"))
	require.Equal(t, "Account.Root.Created.v1", modern[0].Header.Get("Ce-Type"))
	require.Equal(t, "v1", modern[0].Header.Get("Ce-Eventtypeversion"))
	require.JSONEq(t, `{"n":1.50}`, string(modern[0].Body))

	byID := map[string]http.Header{}
	for _, request := range delivered(server, "/old") {
		byID[request.Header.Get("Ce-Id")] = request.Header
		require.Equal(t, "sap.kyma.custom.myshop.AccountRoot.Created.v1", request.Header.Get("Ce-Type"))
		require.JSONEq(t, `{"n":1.50}`, string(request.Body))
	}
	require.Equal(t, "kyma", byID[id].Get("Ce-Source"))
	require.Equal(t, "v1", byID[id].Get("Ce-Eventtypeversion"))
	require.Equal(t, "crm", byID["2"].Get("Ce-Source"))
}

func TestLegacyPublishWithoutNATSIsRefusedInLegacyFormat(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.start(t)
	status, body := get(t, r.url+"/my-shop/v1/events/subscribed")
	require.Equal(t, http.StatusInternalServerError, status, "the bridge does not know the Subscriptions")
	require.Contains(t, body, `"code":500`)
	w.nats.Stop()
	require.Eventually(t, func() bool {
		return r.post(t, "/my-shop/v1/events", `{"event-type":"a.b","event-type-version":"v1","event-time":"2026-01-02T03:04:05Z","data":1}`, nil) ==
			http.StatusBadGateway
	}, timeout, tick)
}

func TestPublishersAreRefusedBeforeTheStreamIsFull(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, nil)
	w := newFixture(t)
	small := broker.DefaultStreamOptions()
	small.MaxBytes = 64 << 10
	require.NoError(t, w.conn.EnsureStreams(t.Context(), small))
	r := w.start(t, func(d *Deps, o *Options) {
		d.Storage = w.store
		o.Storage.Watermark = 0.5
	})

	for i := 0; fillOf(t, w) < 0.6; i++ {
		if status, _ := r.publish(t, strconv.Itoa(i)); status != http.StatusNoContent {
			break // it has polled already
		}
	}
	require.Eventually(t, func() bool {
		_, metrics := get(t, r.metricsURL)
		return strings.Contains(metrics, `rouse_eventbridge_stream_fill_ratio{stream="sap"} `+
			strconv.FormatFloat(fillOf(t, w), 'g', -1, 64))
	}, timeout, tick, "the fill of the stream is not measured")
	status, retryAfter := r.publish(t, "late")
	require.Equal(t, http.StatusInsufficientStorage, status)
	require.Equal(t, "10", retryAfter)
	require.Equal(t, http.StatusInsufficientStorage, r.post(t, "/shop/v1/events",
		`{"event-type":"a.b","event-type-version":"v1","event-time":"2026-01-02T03:04:05Z","data":1}`, nil))
	require.Equal(t, "the stream is nearly full and takes no new events until stored ones are delivered\n", r.refusal(t))
	require.Less(t, fillOf(t, w), 0.9, "the stream is not full")

	ev := cloudevent.Event{ID: "again", Source: "shop", Type: "order.received.v1"}
	require.NoError(t, w.store.Publish(t.Context(), &ev), "what comes back is stored")
	ready, _ := get(t, r.url+"/readyz")
	require.Equal(t, http.StatusOK, ready)
	_, metrics := get(t, r.metricsURL)
	for _, stream := range []string{"sap", "rouse-retries", "rouse-dead-letters"} {
		require.Contains(t, metrics, `rouse_eventbridge_stream_fill_ratio{stream="`+stream+`"}`)
	}
	require.Contains(t, metrics, `eventing_epp_requests_total{code="507",method="POST",path="/publish"}`)

	w.endpoints.Set(loopback.Ready(price.Address()))
	w.backlogIs(t, 0, 0)
	require.Eventually(t, func() bool {
		status, _ := r.publish(t, "after")
		return status == http.StatusNoContent
	}, timeout, tick, "it takes events again")
}

func fillOf(t *testing.T, w *fixture) float64 {
	t.Helper()
	fill, err := w.store.Fill(t.Context(), broker.DefaultStream)
	require.NoError(t, err)
	return fill
}

// refusal is the text that a publisher is refused with.
func (r *replica) refusal(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/publish",
		strings.NewReader(`{"specversion":"1.0","id":"1","source":"shop","type":"order.received.v1"}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/cloudevents+json")
	resp, err := loopback.Default.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain"), "%s %s", resp.Status, text)
	return string(text)
}
