package eventbridge

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

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

// delivered are the requests whose path begins so.
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
