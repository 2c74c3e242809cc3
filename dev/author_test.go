package dev

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/dashboard"
)

// drafted is the answer to a draft.
type drafted struct {
	Objects  []struct{ File, YAML string }
	Problems []struct{ Field, Message, Remedy string }
	Digest   string
	Applied  bool
}

// change sends a change to the dashboard.
func (w *fixture) change(t *testing.T, path, body string) (status int, text string) {
	t.Helper()
	return dashboardAnswer(t, http.MethodPost, w.Dashboard+path, body, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+w.Token)
		r.Header.Set("Content-Type", "application/json")
	})
}

// draft sends a draft, and again what it was answered with if it has no problem.
func (w *fixture) draft(t *testing.T, body map[string]any) drafted {
	t.Helper()
	var found drafted
	for range 2 {
		text, err := json.Marshal(body)
		require.NoError(t, err)
		status, answered := w.change(t, "/api/v1/drafts", string(text))
		require.Equal(t, http.StatusOK, status, answered)
		found = drafted{}
		require.NoError(t, json.Unmarshal([]byte(answered), &found))
		body["seen"] = found.Digest
	}
	return found
}

func TestAFunctionIsCreatedAndEditedFromTheDashboardInTheFolder(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	w := run(t, directory)
	function := map[string]any{
		"namespace": "orders", "name": "greeter", "runtime": "nodejs22", "source": "module.exports.main = () => 'one'\n", "dependencies": "", "min": 0, "max": 1,
	}
	subscription := map[string]any{"namespace": "orders", "name": "greeter", "source": "shop", "types": []string{"order.received"}, "function": "greeter"}
	found := w.draft(t, map[string]any{"function": function, "subscription": subscription, "create": true})
	require.True(t, found.Applied, found)
	require.Equal(t, "greeter.yaml", found.Objects[0].File)
	await(t, "it is read", func() bool { return w.functions(t)["greeter"].Phase == "asleep" })
	answered := func(want string) {
		await(t, "it answers "+want, func() bool {
			_, text := w.change(t, "/api/v1/functions/orders/greeter/call", `{"method":"GET","path":"/"}`)
			return strings.Contains(text, `"body":"`+want+`"`)
		})
	}
	answered("one")
	function["source"] = "module.exports.main = () => 'two'\n"
	require.True(t, w.draft(t, map[string]any{"function": function}).Applied)
	answered("two")

	function["runtime"] = "cobol"
	refused := w.draft(t, map[string]any{"function": function})
	require.False(t, refused.Applied)
	require.Equal(t, "function.runtime", refused.Problems[0].Field)
	function["name"] = "../outside"
	require.Equal(t, "function.name", w.draft(t, map[string]any{"function": function, "create": true}).Problems[0].Field)
	text, err := os.ReadFile(filepath.Join(directory, "greeter.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "'two'")
	require.Contains(t, string(text), "nodejs22")
	require.NoFileExists(t, filepath.Join(directory, "..", "outside.yaml"))
}

func TestASubscriptionIsPausedFromTheDashboardInItsFile(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", greeter(prints("up")))
	w := run(t, directory)
	paused := func() string {
		var found dashboard.Snapshot
		w.get(t, w.Dashboard+"/api/v1/snapshot", &found)
		return found.Subscriptions[0].State
	}
	await(t, "it is ready", func() bool { return paused() == "ready" })
	status, text := w.change(t, "/api/v1/functions/orders/greeter/pause", `{"paused":true}`)
	require.Equal(t, http.StatusOK, status, text)
	require.JSONEq(t, `{"changed":["orders/greeter"]}`, text)
	await(t, "it is paused", func() bool { return paused() == "paused" })
	status, text = w.change(t, "/api/v1/subscriptions/orders/greeter/pause", `{"paused":false}`)
	require.Equal(t, http.StatusOK, status, text)
	await(t, "it is ready again", func() bool { return paused() == "ready" })
	status, text = w.change(t, "/api/v1/functions/orders/greeter/rollback", `{"version":"a"}`)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, text, "take an earlier one out of Git")
}

func TestTheDashboardShowsProcessesOfLocalMode(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", strings.Replace(greeter(prints("up")), "minReplicas: 0", "minReplicas: 1", 1))
	w := run(t, directory)
	var detail dashboard.FunctionDetail
	await(t, "one runs", func() bool {
		w.get(t, w.Dashboard+"/api/v1/functions/orders/greeter", &detail)
		return len(detail.Pods) == 1 && detail.Pods[0].Ready
	})
	require.Equal(t, "running", detail.Pods[0].State)
	require.Equal(t, "greeter-1", detail.Pods[0].Name)
}
