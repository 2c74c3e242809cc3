package dashboard

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// markup is what a tenant writes into everything that it can.
const markup = `<img src=x onerror="window.attacked=true">`

// cluster serves the pages with an API of one Function of a cluster, whose texts are what a tenant writes.
type cluster struct {
	*httptest.Server

	text string

	mu     sync.Mutex
	rolled []string
}

func startCluster(t *testing.T, text string) *cluster {
	t.Helper()
	c := &cluster{text: text}
	fn := map[string]any{
		"namespace": "shop", "name": "pricing", "runtime": "nodejs22", "desired": 2, "ready": 1, "min": 0, "max": 3,
		"phase": "failing", "problem": "the new version does not start: Cannot find module 'lodash' " + text,
		"backlog": 12, "wakes": nil, "restarts": nil, "url": "http://pricing.shop.svc.cluster.local",
	}
	subscription := map[string]any{
		"namespace": "shop", "name": "pricing", "source": "store", "types": []string{"order.received"}, "sink": "shop/pricing", "function": true,
		"state": "paused", "message": text, "backlog": 12, "inFlight": 0, "retries": 0, "deadLetters": 0,
	}
	api := http.NewServeMux()
	answers(api, "/api/v1/about", map[string]any{
		"home": "cluster", "name": "production", "version": "devel", "runtimes": []string{"nodejs22"}, "user": map[string]any{"name": "jane", "changes": true},
	})
	answers(api, "/api/v1/events", map[string]any{"records": []any{}})
	answers(api, "/api/v1/functions/shop/pricing", c.detail(fn))
	answers(api, "/api/v1/health", map[string]any{"at": time.Now(), "findings": c.findings(), "alerts": c.alerts()})
	streams(api, "/api/v1/live", "state", map[string]any{"set": map[string]any{
		"functions": map[string]any{"shop/pricing": fn}, "subscriptions": map[string]any{"shop/pricing": subscription},
	}})
	lines := func(replica, stream string, texts ...string) map[string]any {
		var all []any
		for i, text := range texts {
			all = append(all, map[string]any{"time": time.Now().Add(time.Duration(i) * time.Second), "replica": replica, "stream": stream, "text": text + c.text})
		}
		return map[string]any{"lines": all}
	}
	printed := lines("pricing-7d9c6b5f4-x2x8q", "stdout", "pricing order order-1041 ", "pricing order order-1042 ")
	streams(api, "/api/v1/functions/shop/pricing/log", "lines", printed)
	streams(api, "/api/v1/functions/shop/pricing/build", "lines", lines("install", "build", "npm installs lodash "))
	api.HandleFunc("/api/v1/functions/shop/pricing/rollback", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // of our own page
		c.mu.Lock()
		defer c.mu.Unlock()
		c.rolled = append(c.rolled, string(body))
		_, _ = io.WriteString(w, `{"version":"5d0c2a91ee"}`) // the page may be gone
	})
	c.Server = serve(t, api)
	return c
}

func (c *cluster) findings() []any {
	return []any{
		map[string]any{"check": "server", "level": "good", "message": "Kubernetes 1.35"},
		map[string]any{"check": "components", "level": "good", "message": "controller, eventbridge, scaler and gateway are ready"},
		map[string]any{
			"check": "keda", "level": "bad", "message": "KEDA does not answer, so that no Function wakes or sleeps " + c.text,
			"remedy": "kubectl -n keda get pods " + c.text,
		},
		map[string]any{"check": "clock", "level": "warning", "message": "this machine's clock and the API server's differ by 42s", "remedy": "set this machine's clock by NTP"},
	}
}

func (c *cluster) alerts() map[string]any {
	return map[string]any{"silent": 1, "firing": []any{
		map[string]any{
			"name": "RouseDeadLetters", "severity": "warning", "namespace": "shop", "since": time.Now().Add(-4 * time.Minute),
			"summary": "3 events of Subscription shop/pricing became dead letters within 15 minutes: Rejected. " + c.text,
			"remedy":  "They are kept until they are redriven, purged or too old: repair the sink, and redrive them. " + c.text,
		},
	}}
}

func (c *cluster) detail(fn map[string]any) map[string]any {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	detail := map[string]any{
		"why": []any{map[string]any{"question": "why not 0", "answer": "12 events wait " + c.text}}, "environment": []string{"CURRENCY", "API_KEY"},
		"files": []any{map[string]any{"name": "handler", "text": "module.exports.main = () => 1\n"}},
		"conditions": []any{
			map[string]any{"type": "ConfigurationReady", "status": "True", "level": "good", "reason": "FunctionSpecValidated", "message": "the spec is valid", "since": ago(time.Hour)},
			map[string]any{"type": "BuildReady", "status": "True", "level": "good", "reason": "JobFinished", "message": "the image is sha256:0f2a", "since": ago(time.Hour)},
			map[string]any{"type": "Running", "status": "False", "level": "bad", "reason": "HandlerFailed", "message": "the new version does not start " + c.text, "since": ago(4 * time.Minute)},
		},
		"pods": []any{
			map[string]any{"name": "pricing-7d9c6b5f4-x2x8q", "ready": true, "state": "running", "restarts": 0, "since": ago(2 * time.Hour)},
			map[string]any{
				"name": "pricing-6f5b9c77d-9kq4z", "ready": false, "state": "CrashLoopBackOff", "restarts": 5, "since": ago(5 * time.Minute),
				"problem": "back-off 2m40s restarting failed container; it ended before with exit code 1 (Error) " + c.text,
			},
		},
		"versions": []any{
			map[string]any{"name": "9b1f03c7aa", "since": ago(5 * time.Minute), "pods": 1, "state": "rollingOut"},
			map[string]any{"name": "5d0c2a91ee", "since": ago(26 * time.Hour), "pods": 1, "state": "serving"},
			map[string]any{"name": "02ffc81b35", "since": ago(90 * time.Hour), "pods": 0},
		},
		"rollbackTo": "9b1f03c7aa",
		"happenings": []any{
			map[string]any{"last": ago(time.Minute), "count": 3, "warning": true, "reason": "HandlerFailed", "message": "Cannot find module 'lodash' " + c.text},
			map[string]any{"last": ago(5 * time.Minute), "count": 1, "reason": "BuildFinished", "message": "built 9b1f03c7aa in 14 s"},
		},
		"unknown": []string{"you may not list secrets " + c.text},
	}
	maps.Copy(detail, fn)
	return detail
}

func TestAFunctionOfAClusterIsExplainedAndRolledBack(t *testing.T) {
	c, b := startCluster(t, ""), open(t)
	b.size(t, 1440, 900, "light")
	b.do(t, chromedp.Navigate(c.URL+"/functions/shop/pricing#"+strings.Repeat("token", 5)))
	for _, want := range []string{
		"It does not run", "the new version does not start", "The build is done", "CrashLoopBackOff", "back-off 2m40s", "Cannot find module", "12 events wait", "02ffc81b35",
	} {
		b.shows(t, "main", want)
	}
	b.press(t, "Build")
	b.shows(t, ".log", "npm installs lodash")
	b.shows(t, "main", "rolling out")
	b.shows(t, "main", "serving")
	offered := evaluate[[]string](t, b, `[...document.querySelectorAll("[aria-label^='Roll back to']")].map((e) => e.ariaLabel)`)
	require.Equal(t, []string{"Roll back to 02ffc81b35"}, offered)

	b.do(t, click(`[aria-label="Roll back to 02ffc81b35"]`))
	b.shows(t, "dialog[open]", "Roll pricing back to 02ffc81b35?")
	for range 6 {
		b.do(t, chromedp.KeyEvent("\t"))
		require.True(t, b.truth(t, `document.activeElement === document.body || document.activeElement.closest("dialog") !== null`), "the focus stays in the dialog")
	}
	b.do(t, chromedp.KeyEvent("\u001b"))
	eventually(t, "the dialog is gone", func() bool { return b.truth(t, `document.querySelector("dialog") === null`) })
	require.Equal(t, "Roll back to 02ffc81b35", evaluate[string](t, b, `document.activeElement.getAttribute("aria-label")`), "the focus is back")
	b.do(t, chromedp.KeyEvent("\r"))
	b.shows(t, "dialog[open]", "without a build")
	b.do(t, clickPath(`//dialog//button[text()="Roll back"]`))
	b.shows(t, "#notes", "pricing serves version 5d0c2a91ee")
	b.press(t, "Return to the newest")
	b.do(t, clickPath(`//dialog//button[text()="Return"]`))
	eventually(t, "both were asked for", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.rolled) == 2 && c.rolled[0] == `{"version":"02ffc81b35"}` && c.rolled[1] == `{"version":""}`
	})
	b.clean(t)
}

func TestTextsOfAClusterThatAreMarkupAreShownAsText(t *testing.T) {
	c, b := startCluster(t, markup), open(t)
	b.do(t, chromedp.Navigate(c.URL+"/functions/shop/pricing#"+strings.Repeat("token", 5)))
	b.shows(t, "main", "Cannot find module 'lodash' "+markup)
	b.shows(t, ".log", "pricing order order-1042 "+markup)
	b.press(t, "Build")
	b.shows(t, ".log", "npm installs lodash "+markup)
	b.follow(t, "/health")
	b.shows(t, "main", "so that no Function wakes or sleeps "+markup)
	b.shows(t, "main", "within 15 minutes: Rejected. "+markup)
	require.False(t, b.truth(t, `window.attacked === true || document.querySelector("img") !== null`))
	b.clean(t)
}
