package dev

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

func TestTheLastEventsAreRememberedWithinBounds(t *testing.T) {
	t.Parallel()
	var r recentEvents
	for i := range maxRecent + 5 {
		r.add(cloudevent.Event{ID: strconv.Itoa(i), Source: "shop", Type: "order.received"})
	}
	r.add(cloudevent.Event{ID: "9", Source: "shop", Type: "stock.moved"})
	r.add(cloudevent.Event{ID: "9", Source: "shop", Type: "stock.moved"})
	require.Len(t, r.Find(nil, ""), maxRecent)
	require.Empty(t, r.Find([]string{"0"}, ""), "the oldest are forgotten")
	require.Len(t, r.Find([]string{"9"}, ""), 2)
	require.Len(t, r.Find([]string{"9"}, "stock.*"), 1)
	require.Empty(t, r.Find(nil, "stock"))

	r.add(cloudevent.Event{ID: "large", Source: "shop", Type: "a.b", Data: make([]byte, maxRecentBytes)})
	require.Len(t, r.Find(nil, ""), maxRecent, "events without data take no bytes")
	r.add(cloudevent.Event{ID: "more", Source: "shop", Type: "a.b", Data: []byte("x")})
	require.Len(t, r.Find(nil, ""), 1)
}

func TestLocalModeRemembersWhatWasPublished(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write(t, directory, "fn.yaml", greeter(prints("hello")))
	w := run(t, directory)
	w.emit(t, "1", `{"id":"1"}`)
	var found []map[string]any
	await(t, "the event is remembered", func() bool {
		w.get(t, w.Control+"/v1/events?id=1&type=order.*", &found)
		return len(found) == 1
	})
	require.Equal(t, map[string]any{"id": "1"}, found[0]["data"])
	require.Equal(t, "order.received", found[0]["type"])
}

func TestRememberedEventsNeedTheTokenAndFewIDs(t *testing.T) {
	t.Parallel()
	server, _, _ := serveControl(t)
	refused := get(t, server, "/v1/events", func(r *http.Request) { r.Header.Del("Authorization") })
	require.NoError(t, refused.Body.Close())
	require.Equal(t, http.StatusUnauthorized, refused.StatusCode)
	query := "?" + strings.Repeat("id=1&", maxWanted+1)
	tooMany := get(t, server, "/v1/events"+query)
	require.NoError(t, tooMany.Body.Close())
	require.Equal(t, http.StatusBadRequest, tooMany.StatusCode)
	var found []any
	none := get(t, server, "/v1/events?id=1")
	require.NoError(t, json.NewDecoder(none.Body).Decode(&found))
	require.NoError(t, none.Body.Close())
	require.Empty(t, found)
}
