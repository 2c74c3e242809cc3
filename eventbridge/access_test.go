package eventbridge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// tokens knows those of the form namespace/name.
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
