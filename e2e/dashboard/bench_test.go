package dashboard

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// task is what make bench-dashboard has started, and wants to know of it.
type task struct {
	URL       string  `json:"url"`
	Token     string  `json:"token"`
	Functions int     `json:"functions"`
	Seconds   float64 `json:"seconds"`
	Report    string  `json:"report"`
}

// firstViews is how often the page is opened; the first view is the median.
const firstViews = 5

// watches notes when a page has shown all Functions first, and for each event that it lists how long that took since the bridge noted it.
const watches = `
(() => {
  const seen = new Set();
  window.__bench = { first: 0, latencies: [] };
  const look = () => {
    if (document.querySelector(".stats")?.innerText.includes("of " + (WANTED).toLocaleString("en-US"))) window.__bench.first = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  const note = (element) => {
    const at = element.getAttribute("datetime");
    if (seen.has(at) || performance.now() < 5000) { seen.add(at); return; }
    seen.add(at);
    const took = Date.now() - Date.parse(at);
    if (took >= 0 && took < 60000) window.__bench.latencies.push(took);
  };
  new MutationObserver((changes) => {
    for (const { target, addedNodes, type } of changes) {
      if (type === "attributes") note(target);
      for (const node of addedNodes) for (const found of node.querySelectorAll?.("time[datetime]") ?? []) note(found);
    }
  }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["datetime"] });
})();`

func TestBenchOfTheDashboard(t *testing.T) {
	path := os.Getenv("ROUSE_BENCH")
	if path == "" {
		t.Skip("make bench-dashboard runs it")
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var wanted task
	require.NoError(t, json.Unmarshal(text, &wanted))
	b := open(t)
	b.size(t, 1440, 900, "light")
	b.do(t, chromedp.Navigate(wanted.URL))
	b.refuse(t, "a-guess", "this token is not valid in the cluster")
	b.logIn(t, wanted.Token)
	b.shows(t, ".stats", "of ")
	require.True(t, b.truth(t, `document.cookie === "" && Object.keys(sessionStorage).length === 0`), "no script sees the session")
	time.Sleep(5 * time.Second) // the journal and the state are read
	b.do(t, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		script := "const WANTED = " + strconv.Itoa(wanted.Functions) + ";" + watches
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
	var views []float64
	for range firstViews {
		b.do(t, chromedp.Navigate(wanted.URL))
		eventually(t, "all Functions are shown", func() bool { return b.truth(t, `window.__bench.first > 0`) })
		views = append(views, evaluate[float64](t, b, `window.__bench.first`))
		require.True(t, b.truth(t, `performance.getEntriesByType("resource").every((one, i, all) => all.findIndex((other) => other.name === one.name) === i)`),
			"the page asks for nothing twice")
	}
	slices.Sort(views)
	time.Sleep(time.Duration(wanted.Seconds * float64(time.Second)))
	latencies := evaluate[[]float64](t, b, `window.__bench.latencies`)
	require.Greater(t, len(latencies), 20, "events come to the screen")
	require.True(t, b.truth(t, `parseFloat(document.querySelectorAll(".stat b")[1].textContent) > 100`), "events are delivered")
	slices.Sort(latencies)
	report, err := json.Marshal(map[string]any{
		"firstViewMs": views[len(views)/2], "p95Ms": latencies[len(latencies)*95/100], "heapMiB": b.heap(t) / (1 << 20), "shown": len(latencies),
	})
	require.NoError(t, err)
	b.clean(t)
	require.NoError(t, os.WriteFile(wanted.Report, report, 0o600))
	b.do(t, clickPath(`//button[text()="Log out"]`))
	eventually(t, "the login is shown again", func() bool { return b.truth(t, `document.querySelector("input[name=token]") !== null`) })
}

// refuse tries to log in with a token that is not valid.
func (b *browser) refuse(t *testing.T, token, says string) {
	t.Helper()
	b.do(t, chromedp.SendKeys(chromedp.CSS(`input[name=token]`), token), click(".login button"))
	eventually(t, "the login says why", func() bool { return strings.Contains(b.text(t, ".login"), says) })
	evaluate[bool](t, b, `(document.querySelector("input[name=token]").value = "", true)`)
}

// logIn logs in to a dashboard with sessions. Without one it is answered 401, which Chromium notes.
func (b *browser) logIn(t *testing.T, token string) {
	t.Helper()
	b.do(t, chromedp.SendKeys(chromedp.CSS(`input[name=token]`), token), click(".login button"))
	eventually(t, "the user is logged in", func() bool { return b.truth(t, `document.querySelector(".account") !== null`) })
	b.quiet()
}

// heap returns the bytes of the page's scripts.
func (b *browser) heap(t *testing.T) (bytes float64) {
	t.Helper()
	b.do(t, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		if _, err := chromedp.Call(ctx, performance.Enable, performance.EnableParams{}); err != nil {
			return err
		}
		found, err := chromedp.Call(ctx, performance.GetMetrics, cdp.Empty{})
		if err != nil {
			return err
		}
		for _, metric := range found.Metrics {
			if metric.Name == "JSHeapUsedSize" {
				bytes = metric.Value
			}
		}
		return nil
	}))
	return bytes
}
