package dashboard

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// crowd serves the pages with an API of many Functions, whose events come faster than they can be shown.
func crowd(t *testing.T, functions int) *httptest.Server {
	t.Helper()
	all, subscriptions := map[string]any{}, map[string]any{}
	for i := range functions {
		name := fmt.Sprintf("function-%04d", i)
		all["load/"+name] = map[string]any{
			"namespace": "load", "name": name, "runtime": "nodejs22", "phase": "asleep", "desired": 0, "ready": 0, "min": 0, "max": 3, "backlog": 0, "wakes": 0, "restarts": 0,
		}
		subscriptions["load/"+name] = map[string]any{
			"namespace": "load", "name": name, "source": "load", "types": []string{fmt.Sprintf("type-%d", i%50)}, "sink": "load/" + name, "function": true,
			"state": "ready", "backlog": 0, "inFlight": 0, "retries": 0, "deadLetters": 0,
		}
	}
	api := http.NewServeMux()
	answers(api, "/api/v1/about", map[string]any{
		"home": "local", "name": "/load", "version": "devel", "user": map[string]any{"name": "local", "changes": true},
	})
	answers(api, "/api/v1/events", map[string]any{"records": []any{}})
	api.HandleFunc("/api/v1/live", func(w http.ResponseWriter, r *http.Request) {
		send(w, "state", map[string]any{"set": map[string]any{"functions": all, "subscriptions": subscriptions}})
		for turn := 0; r.Context().Err() == nil; turn++ {
			var records, paths []any
			for i := range 125 {
				event := map[string]any{"time": time.Now(), "kind": "stored", "source": "load", "type": fmt.Sprintf("type-%d", i%50), "id": fmt.Sprintf("%d-%d", turn, i)}
				paths = append(paths, map[string]any{"kind": "stored", "source": "load", "type": event["type"], "count": 1})
				if i < 40 {
					records = append(records, event)
				}
			}
			name := fmt.Sprintf("load/function-%04d", turn%functions)
			woken := maps.Clone(all[name].(map[string]any))
			woken["phase"], woken["ready"] = "ready", 1
			send(w, "state", map[string]any{"set": map[string]any{"functions": map[string]any{name: woken}}})
			send(w, "flow", map[string]any{"records": records, "skipped": 85, "paths": paths})
			select {
			case <-r.Context().Done():
			case <-time.After(250 * time.Millisecond):
			}
		}
	})
	return serve(t, api)
}

func TestTwoThousandFunctionsAnd500EventsASecondAreSampledAndItSaysSo(t *testing.T) {
	server, b := crowd(t, 2000), open(t)
	b.size(t, 1440, 900, "light")
	b.do(t, chromedp.Navigate(server.URL+"/#"+strings.Repeat("token", 5)))
	b.shows(t, ".picture", "The 60 most active of 2,000 Functions are drawn.")
	b.shows(t, ".picture", "sampled: 85 records more than are listed")
	b.shows(t, ".stats", "of 2,000")
	eventually(t, "the rate counts what is not listed", func() bool {
		return b.truth(t, `parseFloat(document.querySelector(".stat b").textContent) > 200`)
	})
	b.follow(t, "/functions")
	b.shows(t, "main", "Show more of 2,000 Functions")
	b.do(t, chromedp.SendKeys(chromedp.CSS(`input[type=search]`), "function-1999"))
	eventually(t, "one is left", func() bool { return b.truth(t, `document.querySelectorAll("tbody tr").length === 1`) })
	b.follow(t, "/subscriptions")
	b.shows(t, "main", "The first 500 of 2,000 are shown")
	b.clean(t)
}
