package eventbridge

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestAnOperatorRedrivesDeadLettersOverTheAdminAPI(t *testing.T) {
	t.Parallel()
	var repaired atomic.Bool
	price := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) {
		if !repaired.Load() {
			http.Error(w, "no such order", http.StatusBadRequest)
		}
	})
	w := newFixture(t, loopback.Ready(price.Address()))
	require.NoError(t, w.conn.EnsureConsumer(t.Context(), broker.DefaultStream, broker.Consumer{ // as the controller makes it
		Name: orders(sinkURL).Consumer, Description: "shop/orders", Subjects: orders(sinkURL).Subjects,
		AckWait: w.ackWait, MaxAckPending: orders(sinkURL).MaxInFlight,
	}))
	var listener net.Listener
	events := journal.New(100)
	r := w.start(t, func(deps *Deps, _ *Options) {
		listener = listen(t)
		deps.AdminListener = listener
		deps.Journal = events
		deps.Admin = jetstream.NewAdminStore(w.conn, broker.DefaultStream, events)
		deps.AdminAccess = identity.Token("secret")
	})
	ask := func(method, path, body string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String()+path, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer secret")
		response, err := loopback.Default.Do(request)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		answered, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(answered)
	}

	r.publishMany(t, 0, 3)
	price.Await(t, 3)
	w.backlogIs(t, 0, 0)
	require.Equal(t, 3, w.deadLetters(t))
	status, text := ask("GET", "/v1/deadletters?namespace=shop&subscription=orders&limit=2", "")
	require.Equal(t, 200, status)
	require.Contains(t, text, `"status":400,"excerpt":"no such order"`)
	require.Contains(t, text, `"next":2`)
	status, text = ask("GET", "/v1/subscriptions", "")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"subscriptions":[{"namespace":"shop","name":"orders","consumer":true,"backlog":0,"ackPending":0,`+
		`"waitingRetries":0,"deadLetters":3}]}`, text)

	repaired.Store(true)
	status, text = ask("POST", "/v1/deadletters/redrive", `{"namespace":"shop","subscription":"orders"}`)
	require.Equal(t, 200, status, text)
	require.JSONEq(t, `{"redriven":3,"failed":0,"remaining":0}`, text)
	again := price.Await(t, 6)[3:]
	w.backlogIs(t, 0, 0)
	require.Zero(t, w.deadLetters(t))
	for _, request := range again {
		require.Contains(t, string(request.Body), `{"order":"`+request.Header.Get("Ce-Id")+`"}`)
		require.Equal(t, "order.received.v1", request.Header.Get("Ce-Type"))
		require.Empty(t, request.Header.Get("Ce-Rousereason"), "the event is not the original")
	}
	redriven := events.Recent(journal.Query{Kinds: []journal.Kind{journal.Redriven}, Namespace: "shop", Subscription: "orders"})
	require.Len(t, redriven, 3)
	require.NotEmpty(t, redriven[0].ID)
	require.NotEmpty(t, redriven[0].Trace)
	status, _ = ask("POST", "/v1/deadletters/redrive", `{"sequence":1}`)
	require.Equal(t, 404, status)
}
