package dev

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// dashboardAnswer is what the dashboard answers to a request.
func dashboardAnswer(t *testing.T, method, url, body string, change ...func(*http.Request)) (status int, text string) {
	t.Helper()
	var content io.Reader = http.NoBody
	if body != "" {
		content = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, content)
	require.NoError(t, err)
	for _, c := range change {
		c(request)
	}
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var answer bytes.Buffer
	_, err = answer.ReadFrom(response.Body)
	require.NoError(t, err)
	return response.StatusCode, answer.String()
}

func TestTheDashboardAnswersOnLoopbackHostsAndWithItsToken(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", greeter(prints("up")))
	w := run(t, directory)
	withToken := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+w.Token) }
	status, text := dashboardAnswer(t, http.MethodGet, w.Dashboard+"/api/v1/about", "", withToken)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `"home":"local"`)
	status, _ = dashboardAnswer(t, http.MethodGet, w.Dashboard+"/api/v1/about", "")
	require.Equal(t, http.StatusUnauthorized, status)
	for _, path := range []string{"/", "/api/v1/about"} {
		status, text = dashboardAnswer(t, http.MethodGet, w.Dashboard+path, "", withToken, func(r *http.Request) { r.Host = "rebound.example.com" })
		require.Equal(t, http.StatusMisdirectedRequest, status)
		require.NotContains(t, text, "local")
	}
	await(t, "its address is printed, with the token behind the #", func() bool {
		return strings.Contains(w.out.String(), "dashboard at "+w.Dashboard+"/#"+w.Token)
	})
}

func TestTheDashboardShowsAChainAndWhatWokeIt(t *testing.T) {
	t.Parallel()
	w := run(t, orders, func(o *Options) { o.Publish = []string{received} })
	snapshot := func() map[string]dashboard.Function {
		var found dashboard.Snapshot
		w.get(t, w.Dashboard+"/api/v1/snapshot", &found)
		require.Len(t, found.Functions, 3)
		require.Len(t, found.Streams, 3)
		byName := map[string]dashboard.Function{}
		for _, fn := range found.Functions {
			byName[fn.Name] = fn
		}
		for _, sub := range found.Subscriptions {
			require.True(t, sub.Function)
			require.Contains(t, byName, strings.TrimPrefix(sub.Sink, "orders/"))
		}
		return byName
	}
	await(t, "the last of the chain has woken", func() bool { wake := snapshot()["recorder"].LastWake; return wake != nil && wake.ReadyMS > 0 })
	await(t, "all sleep again", func() bool {
		for _, fn := range snapshot() {
			if fn.Phase != "asleep" || fn.Backlog == nil || *fn.Backlog != 0 {
				return false
			}
		}
		return true
	})
	var tree struct {
		ID         string
		Deliveries []struct {
			Sink     string
			Children []struct{ Type string }
		}
	}
	var page struct {
		Records []struct{ ID, Kind, Type string }
	}
	w.get(t, w.Dashboard+"/api/v1/events?type=order.received&kind=stored", &page)
	require.Len(t, page.Records, 1)
	w.get(t, w.Dashboard+"/api/v1/trace?id="+page.Records[0].ID, &tree)
	require.Equal(t, "orders/pricing", tree.Deliveries[0].Sink)
	require.Equal(t, "order.priced", tree.Deliveries[0].Children[0].Type)
}

func TestTheDashboardShowsNamesOfVariablesAndNoValues(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	manifest := strings.Replace(greeter(prints("up")), "spec:\n", "spec:\n  env: [{name: API_KEY, value: a-secret-value}]\n", 1)
	write(t, directory, "fn.yaml", manifest)
	w := run(t, directory)
	withToken := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+w.Token) }
	for _, path := range []string{"/api/v1/functions/orders/greeter", "/api/v1/snapshot"} {
		status, text := dashboardAnswer(t, http.MethodGet, w.Dashboard+path, "", withToken)
		require.Equal(t, http.StatusOK, status, path)
		require.NotContains(t, text, "a-secret-value", path)
	}
	var detail dashboard.FunctionDetail
	w.get(t, w.Dashboard+"/api/v1/functions/orders/greeter", &detail)
	require.Equal(t, []string{"API_KEY"}, detail.Environment)
	require.Contains(t, detail.Files[0].Text, "console.log")
	require.NotEmpty(t, detail.Why)
}

func TestADeadLetterIsRedrivenFromTheDashboard(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", greeter("module.exports.main = event => { event.setResponseStatus(400); return 'no' }"))
	w := run(t, directory)
	asUser := func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+w.Token)
		r.Header.Set("Content-Type", "application/json")
	}
	status, text := dashboardAnswer(t, http.MethodPost, w.Dashboard+"/api/v1/publish",
		`{"specversion":"1.0","id":"by-hand","source":"shop","type":"order.received","data":{"id":"1"}}`, asUser)
	require.Equal(t, http.StatusOK, status, text)
	var page struct {
		DeadLetters []struct {
			Sequence   uint64
			ID, Reason string
		}
	}
	await(t, "it is a dead letter", func() bool {
		w.get(t, w.Dashboard+"/api/v1/deadletters", &page)
		return len(page.DeadLetters) == 1
	})
	require.Equal(t, "by-hand", page.DeadLetters[0].ID)
	write(t, directory, "fn.yaml", greeter(prints("mended")))
	await(t, "the new version is there", func() bool { return w.functions(t)["greeter"].Phase == "asleep" })
	body, err := json.Marshal(map[string]any{"sequences": []uint64{page.DeadLetters[0].Sequence}})
	require.NoError(t, err)
	status, text = dashboardAnswer(t, http.MethodPost, w.Dashboard+"/api/v1/deadletters/redrive", string(body), asUser)
	require.Equal(t, http.StatusOK, status, text)
	require.JSONEq(t, `{"done":1}`, text)
	var event struct {
		Event struct{ Data struct{ ID string } }
	}
	w.get(t, w.Dashboard+"/api/v1/event?id=by-hand", &event)
	require.Equal(t, "1", event.Event.Data.ID)
	status, _ = dashboardAnswer(t, http.MethodPost, w.Dashboard+"/api/v1/publish", `{"no":"event"}`, asUser)
	require.Equal(t, http.StatusUnprocessableEntity, status)
}

func TestAFunctionIsWokenAndCalledFromTheDashboard(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	const handler = "module.exports.main = event => 'hello ' + event.extensions.request.method + ' ' + event.extensions.request.path"
	write(t, directory, "fn.yaml", greeter(handler))
	w := run(t, directory)
	asUser := func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+w.Token)
		r.Header.Set("Content-Type", "application/json")
	}
	await(t, "the Function's port", func() bool { return w.functions(t)["greeter"].URL != "" })
	path := w.Dashboard + "/api/v1/functions/orders/greeter/call"
	status, text := dashboardAnswer(t, http.MethodPost, path, `{"method":"PUT","path":"/orders/7"}`, asUser)
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, `"status":200`)
	require.Contains(t, text, `"body":"hello PUT /orders/7"`)
	status, _ = dashboardAnswer(t, http.MethodPost, w.Dashboard+"/api/v1/functions/orders/absent/call", `{"method":"GET","path":"/"}`, asUser)
	require.Equal(t, http.StatusNotFound, status)
}

// The arguments of a program can be read by everyone on the machine.
func TestTheBrowserIsGivenAFileAndNoToken(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	opener, opened := filepath.Join(directory, "opener.sh"), filepath.Join(directory, "opened")
	require.NoError(t, os.WriteFile(opener, []byte("#!/bin/sh\necho \"$@\" >"+opened+".new && mv "+opened+".new "+opened+"\n"), 0o700))
	write(t, directory, "fn.yaml", greeter(prints("up")))
	w := run(t, directory, func(o *Options) { o.Open, o.opener = true, opener })
	await(t, "the browser is opened", func() bool { _, err := os.Stat(opened); return err == nil })
	arguments, err := os.ReadFile(opened)
	require.NoError(t, err)
	require.NotContains(t, string(arguments), w.Token)
	file := strings.TrimSpace(string(arguments))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(content), w.Dashboard+"/#"+w.Token)
}
