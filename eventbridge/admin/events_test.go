package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// remembering is a handler with a journal that holds some records.
func remembering(t *testing.T, records ...journal.Record) (*Handler, *journal.Journal) {
	t.Helper()
	j := journal.New(100)
	for _, r := range records {
		j.Add(r)
	}
	return New(Deps{Store: &fakeStore{}, Journal: j, Wakes: journal.NewWakes(), Access: identity.Token(token), Log: logr.Discard()}), j
}

func idsIn(t *testing.T, body string) []string {
	t.Helper()
	ids := []string{}
	for line := range strings.Lines(body) {
		var r journal.Record
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		ids = append(ids, r.ID)
	}
	return ids
}

func TestEventQueriesFilterByTheirParameters(t *testing.T) {
	t.Parallel()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	now := time.Now()
	h, _ := remembering(t,
		journal.Record{Time: now.Add(-time.Hour), ID: "1", Kind: journal.Stored, Source: "shop", Type: "order.received"},
		journal.Record{Time: now, ID: "2", Kind: journal.Stored, Source: "shop", Type: "order.priced", Cause: "1", Trace: trace},
		journal.Record{Time: now, ID: "3", Kind: journal.Retry, Source: "mill", Type: "flour", Namespace: "orders", Subscription: "pricing"},
		journal.Record{Time: now, ID: "4", Kind: journal.Delivered, Source: "mill", Type: "bran", Namespace: "orders", Subscription: "baking"},
	)
	for query, want := range map[string][]string{
		"":                                 {"1", "2", "3", "4"},
		"id=2":                             {"2"},
		"trace=" + trace:                   {"2"},
		"trace=" + strings.ToUpper(trace):  {"2"},
		"cause=1":                          {"2"},
		"source=mill":                      {"3", "4"},
		"type=order.*":                     {"1", "2"},
		"type=flour":                       {"3"},
		"namespace=orders":                 {"3", "4"},
		"subscription=pricing&source=mill": {"3"},
		"kind=retry&kind=delivered":        {"3", "4"},
		"kind=stored,retry":                {"1", "2", "3"},
		"since=5m":                         {"2", "3", "4"},
		"limit=1":                          {"4"},
		"limit=1&kind=stored&follow=false": {"2"},
		"id=none":                          {},
	} {
		answered := ask(h, "GET", "/v1/events?"+query, "")
		require.Equal(t, http.StatusOK, answered.Code, query)
		require.Equal(t, "application/x-ndjson", answered.Header().Get("Content-Type"), query)
		require.Equal(t, want, idsIn(t, answered.Body.String()), query)
	}
}

func TestInvalidEventQueriesAreRefused(t *testing.T) {
	t.Parallel()
	h, _ := remembering(t)
	for query, want := range map[string]string{
		"kind=lost":       `kind: there is no "lost": use some of [stored delivered`,
		"since=yesterday": "since: it must be a duration",
		"since=-5m":       "since: it must be a duration",
		"limit=0":         "limit: it must be a number of at least 1",
		"limit=x":         "limit: it must be a number of at least 1",
		"follow=maybe":    "follow: it must be true or false",
		"trace=7":         "trace: it must be the 32 hexadecimal digits",
		"type=*.received": "type: a * may stand at its end only",
		"id=":             "id: it must not be empty",
		"namespace=":      "namespace: it must not be empty",
		"namespace=*":     "namespace: not a valid name of a namespace",
		"tpye=order":      `there is no parameter "tpye": use follow, since`,
	} {
		answered := ask(h, "GET", "/v1/events?"+query, "")
		require.Equal(t, http.StatusBadRequest, answered.Code, query)
		var got errorBody
		require.NoError(t, json.Unmarshal(answered.Body.Bytes(), &got), query)
		require.Contains(t, got.Error, want, query)
	}
	require.Equal(t, http.StatusMethodNotAllowed, ask(h, "POST", "/v1/events", "").Code)
	require.Equal(t, http.StatusUnauthorized, ask(h, "GET", "/v1/events", "", func(r *http.Request) { r.Header.Del("Authorization") }).Code)
	without := ask(newHandler(t, &fakeStore{}, logr.Discard()), "GET", "/v1/events", "")
	require.Equal(t, http.StatusNotFound, without.Code)
	require.Contains(t, without.Body.String(), "--journal-events is 0")
}

// follow opens a stream of records, which ends with ctx.
func follow(ctx context.Context, t *testing.T, url string) *bufio.Scanner {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(t, http.StatusOK, response.StatusCode)
	return bufio.NewScanner(response.Body)
}

func TestEventsAreFollowedUntilTheClientIsGone(t *testing.T) {
	t.Parallel()
	h, j := remembering(t, journal.Record{ID: "1", Type: "order.received"})
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	lines := follow(ctx, t, server.URL+"/v1/events?follow=true&type=order.*")
	next := func() string {
		require.True(t, lines.Scan(), "%v", lines.Err())
		return idsIn(t, lines.Text())[0]
	}
	require.Equal(t, "1", next())
	j.Add(journal.Record{ID: "2", Type: "flour"})
	j.Add(journal.Record{ID: "3", Type: "order.priced"})
	require.Equal(t, "3", next())
	leave()
	<-ended
}

func TestFollowingEndsWhenTheBridgeStops(t *testing.T) {
	t.Parallel()
	h, j := remembering(t, journal.Record{ID: "1"})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	server := httptest.NewServer(daemon.CancelHandler(ctx, h))
	defer server.Close()
	lines := follow(t.Context(), t, server.URL+"/v1/events?follow=true&since=0s")
	j.Add(journal.Record{ID: "2"})
	require.True(t, lines.Scan())
	require.Equal(t, []string{"2"}, idsIn(t, lines.Text()), "those before are not asked for")
	stop()
	require.False(t, lines.Scan())
	require.NoError(t, lines.Err(), "it ends as an answer ends")
}

func TestReadersThatAnnounceABodyTakeNoSlot(t *testing.T) {
	t.Parallel()
	h, _ := remembering(t, journal.Record{ID: "1"})
	server := httptest.NewServer(h)
	defer server.Close()
	for range followersAtATime {
		for _, path := range []string{"/v1/events?follow=true", "/v1/events", "/v1/subscriptions", "/v1/deadletters", "/v1/deadletters/5"} {
			never, end := io.Pipe()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, never)
			require.NoError(t, err)
			request.Header.Set("Authorization", "Bearer "+token)
			request.ContentLength = 10
			response, err := loopback.Default.Do(request)
			require.NoError(t, err, path)
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err, path)
			require.NoError(t, response.Body.Close())
			require.NoError(t, end.Close())
			require.Equal(t, http.StatusBadRequest, response.StatusCode, path)
			require.True(t, response.Close, "the connection is closed")
			require.JSONEq(t, `{"error":"`+daemon.ErrBody.Error()+`"}`, string(text), path)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	require.True(t, follow(ctx, t, server.URL+"/v1/events?follow=true").Scan())
}

func TestTheLastWakesOfANamespaceAreReturned(t *testing.T) {
	t.Parallel()
	wakes := journal.NewWakes()
	began := time.Date(2026, 5, 1, 12, 4, 10, 5e6, time.UTC)
	wakes.Add(types.NamespacedName{Namespace: "shop", Name: "price"},
		activation.Wake{Cause: activation.WokenByRequest, Began: began, SentMS: 3, ReadyMS: 912})
	h := New(Deps{Store: &fakeStore{}, Wakes: wakes, Access: identity.Token(token), Log: logr.Discard()})
	answered := ask(h, "GET", "/v1/wakes?namespace=shop", "")
	require.Equal(t, http.StatusOK, answered.Code)
	require.JSONEq(t, `{"wakes":[{"namespace":"shop","name":"price","cause":"request","began":"2026-05-01T12:04:10.005Z","sentMs":3,"readyMs":912}]}`,
		answered.Body.String())
	require.JSONEq(t, `{"wakes":[]}`, ask(h, "GET", "/v1/wakes?namespace=bank", "").Body.String())
	require.Equal(t, http.StatusBadRequest, ask(h, "GET", "/v1/wakes", "").Code)
}
