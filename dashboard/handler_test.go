package dashboard

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// paths are all of the API, by method.
var paths = map[string][]string{
	http.MethodGet: {
		"/api/v1/about", "/api/v1/snapshot", "/api/v1/live", "/api/v1/functions/shop/pricing", "/api/v1/functions/shop/pricing/log",
		"/api/v1/functions/shop/pricing/build", "/api/v1/events",
		"/api/v1/events/live", "/api/v1/event?id=1", "/api/v1/trace?id=1", "/api/v1/deadletters", "/api/v1/deadletters/1",
		"/api/v1/functions/shop/pricing/draft", "/api/v1/health",
	},
	http.MethodPost: {
		"/api/v1/deadletters/redrive", "/api/v1/deadletters/purge", "/api/v1/publish", "/api/v1/functions/shop/pricing/call",
		"/api/v1/functions/shop/pricing/rollback", "/api/v1/functions/shop/pricing/pause", "/api/v1/subscriptions/shop/pricing/pause", "/api/v1/drafts",
	},
}

func TestNothingIsAnsweredToStrangers(t *testing.T) {
	t.Parallel()
	home := newHome()
	h := home.handler(t)
	for method, all := range paths {
		for _, path := range all {
			for name, change := range map[string]func(*http.Request){
				"no token":    func(r *http.Request) { r.Header.Del("Authorization") },
				"wrong token": header("Authorization", "Bearer "+ownersToken+"x"),
				"basic":       header("Authorization", "Basic "+ownersToken),
			} {
				got := ask(t, h, method, path, "", change)
				require.Equal(t, http.StatusUnauthorized, got.Code, "%s with %s", path, name)
				require.JSONEq(t, `{"error":"log in first: open the address that rouse dev has printed"}`, got.Body.String())
			}
		}
	}
	require.Zero(t, home.asked)
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodGet, "/api/v2/about", "").Code)
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodDelete, "/api/v1/about", "").Code)
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	home := newHome()
	h := home.handler(t)
	for name, change := range map[string]func(*http.Request){
		"another site":           header("Sec-Fetch-Site", "cross-site"),
		"a port of this machine": header("Sec-Fetch-Site", "same-site"),
		"an old browser":         header("Origin", "http://127.0.0.1:8081"),
		"a sandboxed page":       header("Origin", "null"),
	} {
		for method, all := range paths {
			for _, path := range all {
				require.Equal(t, http.StatusForbidden, ask(t, h, method, path, "", change).Code, "%s: %s", name, path)
			}
		}
	}
	require.Zero(t, home.asked)
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodGet, "/api/v1/about", "", header("Sec-Fetch-Site", "same-origin")).Code)
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodGet, "/api/v1/about", "", header("Origin", "http://127.0.0.1:8060")).Code)
}

func TestWhoMayOnlyReadChangesNothing(t *testing.T) {
	t.Parallel()
	home := newHome()
	home.letters[7] = admin.DeadLetterDetail{DeadLetter: admin.DeadLetter{Sequence: 7}}
	h := home.handler(t)
	reader := header("Authorization", "Bearer "+readersToken)
	for _, path := range paths[http.MethodPost] {
		got := ask(t, h, http.MethodPost, path, `{"sequences":[7]}`, reader)
		require.Equal(t, http.StatusForbidden, got.Code, path)
		require.Contains(t, got.Body.String(), "you may read here and change nothing")
	}
	require.Len(t, home.letters, 1)
	require.Empty(t, home.published)
	require.Empty(t, home.done)
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodGet, "/api/v1/deadletters", "", reader).Code)
	require.Contains(t, ask(t, h, http.MethodGet, "/api/v1/about", "", reader).Body.String(), `"user":{"name":"reader","changes":false}`)
}

func TestFormsOfPagesAreRefused(t *testing.T) {
	t.Parallel()
	home := newHome()
	h := home.handler(t)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"} {
		got := ask(t, h, http.MethodPost, "/api/v1/publish", `{"id":"1"}`, header("Content-Type", kind))
		require.Equal(t, http.StatusUnsupportedMediaType, got.Code, kind)
	}
	require.Empty(t, home.published)
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	home := newHome()
	h := home.handler(t)
	large := `{"data":"` + strings.Repeat("x", maxEvent) + `"}`
	require.Equal(t, http.StatusRequestEntityTooLarge, ask(t, h, http.MethodPost, "/api/v1/publish", large).Code)
	for _, path := range paths[http.MethodPost][:2] {
		require.Equal(t, http.StatusRequestEntityTooLarge, ask(t, h, http.MethodPost, path, `{"sequences":[`+strings.Repeat("1,", maxBody)+`1]}`).Code)
	}
	got := ask(t, h, http.MethodGet, "/api/v1/about", "a body")
	require.Equal(t, http.StatusBadRequest, got.Code, "a GET has none")
	large = `{"function":{"source":"` + strings.Repeat("x", maxDraft) + `"}}`
	require.Equal(t, http.StatusRequestEntityTooLarge, ask(t, h, http.MethodPost, "/api/v1/drafts", large).Code)
	require.Empty(t, home.published)
}

func TestASelectionOfDeadLettersIsRedrivenAndPurgedOneByOne(t *testing.T) {
	t.Parallel()
	home := newHome()
	for _, sequence := range []uint64{1, 2, 3, 4} {
		home.letters[sequence] = admin.DeadLetterDetail{DeadLetter: admin.DeadLetter{Sequence: sequence}}
	}
	h := home.handler(t)
	got := ask(t, h, http.MethodPost, "/api/v1/deadletters/redrive", `{"sequences":[1,2,9]}`)
	require.Equal(t, http.StatusOK, got.Code)
	require.JSONEq(t, `{"done":2,"gone":1}`, got.Body.String())
	require.Equal(t, []uint64{1, 2}, home.redriven)
	require.JSONEq(t, `{"done":1,"gone":1}`, ask(t, h, http.MethodPost, "/api/v1/deadletters/purge", `{"sequences":[3,1]}`).Body.String())
	require.Len(t, home.letters, 1, "what was not selected stays")
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodGet, "/api/v1/deadletters/3", "").Code)
}

func TestASelectionNamesAFewDeadLetters(t *testing.T) {
	t.Parallel()
	h := newHome().handler(t)
	many := make([]string, maxSelected+1)
	for i := range many {
		many[i] = strconv.Itoa(i + 1)
	}
	for body, want := range map[string]string{
		`{}`:                "name from 1 to 50",
		`{"sequences":[]}`:  "name from 1 to 50",
		`{"sequences":[0]}`: "name from 1 to 50", // 0 would select all
		`{"sequences":[` + strings.Join(many, ",") + `]}`: "name from 1 to 50",
		`{"all":true}`:        "unknown field",
		`{"sequences":[1]}{}`: "more than one object",
		`{"sequences":["a"]}`: "not what this path takes",
		`not JSON`:            "not what this path takes",
	} {
		got := ask(t, h, http.MethodPost, "/api/v1/deadletters/purge", body)
		require.Equal(t, http.StatusBadRequest, got.Code, body)
		require.Contains(t, got.Body.String(), want, body)
	}
}

func TestQueriesThatFitNothingAreExplained(t *testing.T) {
	t.Parallel()
	h := newHome().handler(t)
	for path, want := range map[string]string{
		"/api/v1/events?tpye=a":                            `there is no parameter`,
		"/api/v1/events/live?trace=7":                      "trace: it must be the 32 hexadecimal digits",
		"/api/v1/deadletters?limit=0":                      "limit: it must be at least 1",
		"/api/v1/deadletters/first":                        "sequence: it must be a number",
		"/api/v1/event":                                    "id: name the event",
		"/api/v1/trace":                                    "id: name an event",
		"/api/v1/event?id=" + strings.Repeat("x", maxID+1): "id: name the event",
	} {
		got := ask(t, h, http.MethodGet, path, "")
		require.Equal(t, http.StatusBadRequest, got.Code, path)
		require.Contains(t, got.Body.String(), want, path)
	}
	for _, path := range []string{
		"/api/v1/functions/shop/absent", "/api/v1/functions/Shop/pricing", "/api/v1/functions/shop/absent/log", "/api/v1/functions/shop/absent/build",
		"/api/v1/event?id=absent", "/api/v1/trace?id=absent",
	} {
		require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodGet, path, "").Code, path)
	}
}

func TestAnEventIsShownWithItsAttemptsAndItsChain(t *testing.T) {
	t.Parallel()
	home := newHome()
	now := time.Now().UTC()
	for _, record := range []journal.Record{
		{Time: now, Kind: journal.Stored, ID: "kept", Source: "store", Type: "order.received"},
		{Time: now.Add(2 * time.Millisecond), Kind: journal.Stored, ID: "priced", Source: "pricing", Type: "order.priced", Cause: "kept"},
		{
			Time: now.Add(3 * time.Millisecond), Began: now.Add(time.Millisecond), Took: 2 * time.Millisecond, Kind: journal.Delivered,
			ID: "kept", Source: "store", Type: "order.received", Namespace: "shop", Subscription: "pricing", Sink: "shop/pricing", Attempt: 1, Status: 200,
		},
	} {
		home.journal.Add(record)
	}
	h := home.handler(t)
	var detail eventDetail
	require.NoError(t, json.Unmarshal(ask(t, h, http.MethodGet, "/api/v1/event?id=kept&source=store", "").Body.Bytes(), &detail))
	require.Len(t, detail.Records, 2)
	require.JSONEq(t, `{"id":"kept","data":{"net":900}}`, string(detail.Event))
	tree := ask(t, h, http.MethodGet, "/api/v1/trace?id=priced", "").Body.String()
	require.Contains(t, tree, `"id":"kept"`)
	require.Contains(t, tree, `"children":[{"id":"priced"`)
	require.NotContains(t, ask(t, h, http.MethodGet, "/api/v1/event?id=priced", "").Body.String(), `"event"`, "its data are not kept")
}

func TestAnEventIsPublishedAsItIs(t *testing.T) {
	t.Parallel()
	home := newHome()
	h := home.handler(t)
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodPost, "/api/v1/publish", `{"specversion":"1.0","id":"1"}`).Code)
	require.Equal(t, []string{`{"specversion":"1.0","id":"1"}`}, home.published)
}

func TestAFunctionIsCalledAtAPathOfItsOwn(t *testing.T) {
	t.Parallel()
	home := newHome()
	h := home.handler(t)
	const path = "/api/v1/functions/shop/pricing/call"
	got := ask(t, h, http.MethodPost, path, `{"method":"POST","path":"/orders?id=7","body":"hello"}`)
	require.Equal(t, http.StatusOK, got.Code)
	require.JSONEq(t, `{"status":418,"contentType":"","body":"hello","tookMs":0}`, got.Body.String())
	for _, body := range []string{
		`{"method":"CONNECT","path":"/"}`, `{"method":"get","path":"/"}`, `{"method":"GET","path":""}`, `{"method":"GET","path":"@example.com/"}`,
		`{"method":"GET","path":"http://example.com/"}`, `{"method":"GET","path":"/a b"}`, `{"method":"GET","path":"/\\n"}`,
		`{"method":"GET","path":"/` + strings.Repeat("x", maxPath) + `"}`,
	} {
		require.Equal(t, http.StatusBadRequest, ask(t, h, http.MethodPost, path, body).Code, body)
	}
	require.Equal(t, []string{"POST /orders?id=7"}, home.called)
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodPost, "/api/v1/functions/Shop/pricing/call", `{"method":"GET","path":"/"}`).Code)
}

func TestEveryResponseHasTheHeadersThatProtectThePage(t *testing.T) {
	t.Parallel()
	h := newHome().handler(t)
	for _, path := range []string{"/", "/functions/shop/pricing", "/app.js", "/style.css", "/absent.js", "/api/v1/about", "/api/v1/absent"} {
		got := ask(t, h, http.MethodGet, path, "").Header()
		for _, part := range []string{
			"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'",
		} {
			require.Contains(t, got.Get("Content-Security-Policy"), part, path)
		}
		require.NotContains(t, got.Get("Content-Security-Policy"), "unsafe", path)
		require.Equal(t, "nosniff", got.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-referrer", got.Get("Referrer-Policy"), path)
		require.Equal(t, "same-origin", got.Get("Cross-Origin-Resource-Policy"), path)
		require.Empty(t, got.Get("Access-Control-Allow-Origin"), path)
		if strings.HasPrefix(path, "/api/v1/about") {
			require.Equal(t, "no-store", got.Get("Cache-Control"), path)
		}
	}
}
