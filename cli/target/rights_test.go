package target

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// tenantOnly is a bridge for a user of the namespace shop.
func tenantOnly(t *testing.T) (admin Admin, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Query().Get("namespace") != "shop" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `{"error":"alice may not do that: ask for a RoleBinding"}`)
			return
		}
		_, _ = fmt.Fprint(w, map[string]string{
			"/v1/events":        `{"id":"1","kind":"delivered","namespace":"shop"}`,
			"/v1/subscriptions": `{"subscriptions":[{"namespace":"shop","name":"orders","consumer":true,"backlog":1}]}`,
			"/v1/deadletters/5": `{"sequence":5,"namespace":"shop"}`,
		}[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	return Admin{URL: server.URL, Token: "t"}, asked
}

func TestATenantSeesWhatHappensInItsNamespace(t *testing.T) {
	t.Parallel()
	admin, asked := tenantOnly(t)
	var notes []string
	wanted := Wanted{Since: -1, Within: "shop", Note: func(text string) { notes = append(notes, text) }}
	records, err := Recent(t.Context(), []Admin{admin}, wanted)
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, journal.Delivered, records[0].Kind)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "only deliveries in namespace shop")
	require.EqualValues(t, 2, asked.Load())

	idle, err := New(admin).Idle(t.Context(), "shop")
	require.NoError(t, err)
	require.False(t, idle)
	found, err := New(admin).DeadLetter(t.Context(), "shop", 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, found.Sequence)
}

func TestWhoMayNotHasTheBridgesWordForIt(t *testing.T) {
	t.Parallel()
	admin, asked := tenantOnly(t)
	_, ofAll := New(admin).Work(t.Context(), "")
	_, ofAnother := Recent(t.Context(), []Admin{admin}, Wanted{Since: -1, Within: "bank"})
	_, nowhere := Recent(t.Context(), []Admin{admin}, Wanted{Since: -1})
	_, purged := New(admin).Purge(t.Context(), Selection{Namespace: "shop"})
	for _, err := range []error{ofAll, ofAnother, nowhere, purged} {
		require.Equal(t, exit.Unreachable, exit.CodeOf(err))
		require.EqualError(t, err, "the bridge refuses that: alice may not do that: ask for a RoleBinding")
	}
	require.EqualValues(t, 5, asked.Load(), "one of them has a namespace to ask for instead")
}

func TestATokenFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	_, err := New(Admin{URL: server.URL, Token: "t"}).Work(t.Context(), "")
	require.Equal(t, exit.Refused, exit.CodeOf(err))
	require.False(t, reached.Load())
}
