package dev

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/kedarules"
)

type functions []runner.Status

func (f functions) Status() []runner.Status { return f }

type subscribed []SubscriptionStatus

func (s subscribed) Status() []SubscriptionStatus { return s }

type backlogs map[string]int

func (b backlogs) Backlog(fn types.NamespacedName) (int, bool) {
	backlog, known := b[fn.Name]
	return backlog, known
}

func (b backlogs) Status(fn types.NamespacedName) *kedarules.Status {
	if _, known := b[fn.Name]; !known {
		return nil
	}
	return &kedarules.Status{Max: 5}
}

type exposures map[string][]string

func (e exposures) URLs(fn types.NamespacedName) []string { return e[fn.Name] }

const token = "secret"

func serveControl(t *testing.T) (*httptest.Server, *process.Feed, context.CancelFunc) {
	t.Helper()
	lines := process.NewFeed(10)
	handler := NewControl(ControlDeps{
		Functions: functions{
			{Namespace: "orders", Name: "pricing", Phase: runner.Asleep}, {Namespace: "orders", Name: "new", Phase: runner.Preparing},
		},
		Exposures:     exposures{"pricing": {"http://pricing.localhost:8070/"}},
		Subscriptions: subscribed{{Namespace: "orders", Name: "pricing", State: Paused}},
		Scaling:       backlogs{"pricing": 3}, Lines: lines, Recent: &recentEvents{}, Token: token,
	})
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(daemon.CancelHandler(ctx, handler))
	t.Cleanup(func() { cancel(); server.Close() })
	return server, lines, cancel
}

func get(t *testing.T, server *httptest.Server, path string, change ...func(*http.Request)) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	for _, c := range change {
		c(request)
	}
	response, err := server.Client().Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestFunctionsAreListedWithTheirStatus(t *testing.T) {
	t.Parallel()
	server, _, _ := serveControl(t)
	response := get(t, server, "/v1/functions") //nolint:bodyclose // get does
	require.Equal(t, http.StatusOK, response.StatusCode)
	var list List
	require.NoError(t, json.NewDecoder(response.Body).Decode(&list))
	require.Len(t, list.Functions, 2)
	require.Equal(t, "pricing", list.Functions[0].Name)
	require.Equal(t, 3, *list.Functions[0].Backlog)
	require.Equal(t, &kedarules.Status{Max: 5}, list.Functions[0].Scaling)
	require.Equal(t, []string{"http://pricing.localhost:8070/"}, list.Functions[0].Exposed)
	require.Nil(t, list.Functions[1].Backlog, "it is not known")
	require.Empty(t, list.Functions[1].Exposed)
}

func TestSubscriptionsAreListedWithTheirStatus(t *testing.T) {
	t.Parallel()
	server, _, _ := serveControl(t)
	response := get(t, server, "/v1/subscriptions") //nolint:bodyclose // get does
	require.Equal(t, http.StatusOK, response.StatusCode)
	var list Subscriptions
	require.NoError(t, json.NewDecoder(response.Body).Decode(&list))
	require.Equal(t, Subscriptions{[]SubscriptionStatus{{Namespace: "orders", Name: "pricing", State: "paused"}}}, list)
}

func TestRequestsNeedTheTokenAndALoopbackHost(t *testing.T) {
	t.Parallel()
	server, _, _ := serveControl(t)
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"no token":               {func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"another token":          {func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, http.StatusUnauthorized},
		"another scheme":         {func(r *http.Request) { r.Header.Set("Authorization", "Basic "+token) }, http.StatusUnauthorized},
		"a name that leads here": {func(r *http.Request) { r.Host = "rebound.example.com" }, http.StatusMisdirectedRequest},
		"a name with a port":     {func(r *http.Request) { r.Host = "rebound.example.com:80" }, http.StatusMisdirectedRequest},
		"a name like an address": {func(r *http.Request) { r.Host = "127.0.0.1.example.com" }, http.StatusMisdirectedRequest},
		"localhost":              {func(r *http.Request) { r.Host = "localhost:1234" }, http.StatusOK},
		"the other loopback":     {func(r *http.Request) { r.Host = "[::1]:1234" }, http.StatusOK},
		"a foreign address":      {func(r *http.Request) { r.Host = "192.0.2.1" }, http.StatusMisdirectedRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, get(t, server, "/v1/functions", tc.change).StatusCode) //nolint:bodyclose // get does
		})
	}
}

func TestHandlerWithoutATokenRefusesAllRequests(t *testing.T) {
	t.Parallel()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/functions", http.NoBody)
	request.Header.Set("Authorization", "Bearer ")
	recorder := httptest.NewRecorder()
	NewControl(ControlDeps{}).ServeHTTP(recorder, request)
	require.Equal(t, http.StatusUnauthorized, recorder.Code)
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	t.Parallel()
	server, _, _ := serveControl(t)
	for path, want := range map[string]int{
		"/v1/functions/orders/nobody/log":             http.StatusNotFound,
		"/v1/functions/orders/pricing/log?tail=x":     http.StatusBadRequest,
		"/v1/functions/orders/pricing/log?follow=yes": http.StatusBadRequest,
		"/v2":           http.StatusNotFound,
		"/v1/functions": http.StatusOK,
	} {
		response := get(t, server, path) //nolint:bodyclose // get does
		require.Equal(t, want, response.StatusCode, path)
		require.Equal(t, "application/json", response.Header.Get("Content-Type"), path)
	}
}

func TestTheLogHasTheTail(t *testing.T) {
	t.Parallel()
	server, lines, _ := serveControl(t)
	for _, text := range []string{"a", "b", "c"} {
		lines.Add(process.Line{Namespace: "orders", Function: "pricing", Stream: process.Stdout, Text: text})
	}
	for path, want := range map[string]int{
		"/v1/functions/orders/pricing/log":         3,
		"/v1/functions/orders/pricing/log?tail=2":  2,
		"/v1/functions/orders/pricing/log?tail=-1": 3,
		"/v1/functions/orders/pricing/log?tail=0":  0,
		"/v1/functions/orders/new/log":             0,
	} {
		body, err := io.ReadAll(get(t, server, path).Body) //nolint:bodyclose // get does
		require.NoError(t, err)
		require.Len(t, splitLines(body), want, path)
	}
}

func splitLines(body []byte) []string {
	var lines []string
	start := 0
	for i, b := range body {
		if b == '\n' {
			lines = append(lines, string(body[start:i]))
			start = i + 1
		}
	}
	return lines
}

func TestALogIsNotFollowedByARequestThatAnnouncesABody(t *testing.T) {
	t.Parallel()
	server, _, _ := serveControl(t)
	never, end := io.Pipe()
	t.Cleanup(func() { _ = end.Close() })
	response := get(t, server, "/v1/functions/orders/pricing/log?follow=true", func(r *http.Request) { //nolint:bodyclose // get does
		r.Body, r.ContentLength = never, 10
	})
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	require.True(t, response.Close)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), daemon.ErrBody.Error())
}

func TestTheLogIsFollowedUntilTheEnd(t *testing.T) {
	t.Parallel()
	server, lines, stop := serveControl(t)
	addLine := func(text string) {
		lines.Add(process.Line{Namespace: "orders", Function: "pricing", Stream: process.Stdout, Text: text})
	}
	addLine("before")
	body := bufio.NewScanner(get(t, server, "/v1/functions/orders/pricing/log?follow=true&tail=1").Body) //nolint:bodyclose // get does
	next := func() string {
		require.True(t, body.Scan())
		var line process.Line
		require.NoError(t, json.Unmarshal(body.Bytes(), &line))
		return line.Text
	}
	require.Equal(t, "before", next())
	addLine("after")
	require.Equal(t, "after", next())
	stop()
	require.False(t, body.Scan(), "it ends with the local mode")
}
