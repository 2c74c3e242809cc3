package dashboard

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// change is what a page has to change of the state that it has.
type change struct {
	Set  map[string]map[string]json.RawMessage `json:"set"`
	Gone map[string][]string                   `json:"gone"`
}

// reader reads the server-sent events of a stream.
type reader struct {
	t     *testing.T
	lines *bufio.Scanner
	end   context.CancelFunc
}

func follow(t *testing.T, server *httptest.Server, path, token string) (*reader, int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	return &reader{t: t, lines: lines, end: cancel}, response.StatusCode
}

// next returns the next event of a name.
func (r *reader) next(name string, into any) {
	r.t.Helper()
	for r.lines.Scan() {
		if r.lines.Text() != "event: "+name {
			continue
		}
		require.True(r.t, r.lines.Scan())
		data, is := strings.CutPrefix(r.lines.Text(), "data: ")
		require.True(r.t, is)
		require.NoError(r.t, json.Unmarshal([]byte(data), into))
		return
	}
	require.NoError(r.t, r.lines.Err())
	require.FailNow(r.t, "the stream ended")
}

func serve(t *testing.T, home *fakeHome) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(daemon.CancelHandler(t.Context(), home.handler(t)))
	t.Cleanup(server.Close)
	return server
}

func TestALiveStreamSendsTheStateOnceAndThenWhatChanges(t *testing.T) {
	t.Parallel()
	home := newHome()
	stream, _ := follow(t, serve(t, home), "/api/v1/live", ownersToken)
	var first, second change
	stream.next("state", &first)
	require.Contains(t, string(first.Set["functions"]["shop/pricing"]), `"phase":"asleep"`)

	home.change(func(s *Snapshot) {
		s.Functions = append(s.Functions, Function{Namespace: "shop", Name: "stock", Phase: "waking"})
	})
	stream.next("state", &second)
	require.Len(t, second.Set["functions"], 1, "what is as it was is not sent again")
	require.Contains(t, second.Set["functions"], "shop/stock")

	var third change
	home.change(func(s *Snapshot) { s.Functions = s.Functions[1:] })
	stream.next("state", &third)
	require.Empty(t, third.Set)
	require.Equal(t, map[string][]string{"functions": {"shop/pricing"}}, third.Gone)
}

func TestALiveStreamCountsEveryEventAndSendsSome(t *testing.T) {
	t.Parallel()
	home := newHome()
	stream, _ := follow(t, serve(t, home), "/api/v1/live", ownersToken)
	var state change
	stream.next("state", &state)
	const flood = 900
	counted := 0
	for sent := 0; counted < flood; sent++ {
		if sent == 0 {
			for i := range flood {
				home.journal.Add(journal.Record{Kind: journal.Stored, ID: strconv.Itoa(i), Source: "store", Type: "order.received"})
			}
		}
		var flow Flow
		stream.next("flow", &flow)
		require.LessOrEqual(t, len(flow.Records), liveSample)
		inTurn := 0
		for _, path := range flow.Paths {
			inTurn += path.Count
		}
		require.Equal(t, inTurn, len(flow.Records)+flow.Skipped, "it says how many it leaves out")
		counted += inTurn
	}
	require.Equal(t, flood, counted)
}

func TestAStreamOfEventsBeginsWithThoseThatFit(t *testing.T) {
	t.Parallel()
	home := newHome()
	home.journal.Add(journal.Record{Kind: journal.Stored, ID: "1", Type: "order.received"})
	home.journal.Add(journal.Record{Kind: journal.Stored, ID: "2", Type: "stock.low"})
	stream, _ := follow(t, serve(t, home), "/api/v1/events/live?type=order.*", ownersToken)
	var flow Flow
	stream.next("records", &flow)
	require.Equal(t, "1", flow.Records[0].ID)
	home.journal.Add(journal.Record{Kind: journal.Stored, ID: "3", Type: "stock.low"})
	home.journal.Add(journal.Record{Kind: journal.Stored, ID: "4", Type: "order.priced"})
	stream.next("records", &flow)
	require.Equal(t, "4", flow.Records[0].ID)
}

func TestALogIsSentWithLinesThatLookLikeEventsOfTheStream(t *testing.T) {
	t.Parallel()
	home := newHome()
	const attack = "x\n\nevent: state\ndata: {\"gone\":{\"functions\":[\"shop/pricing\"]}}\n\n"
	home.lines = []Line{{Time: time.Now(), Replica: "pricing-1", Stream: "stdout", Text: attack}}
	stream, _ := follow(t, serve(t, home), "/api/v1/functions/shop/pricing/log", ownersToken)
	require.True(t, stream.lines.Scan())
	require.Equal(t, "event: lines", stream.lines.Text())
	require.True(t, stream.lines.Scan())
	var found lineBatch
	require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(stream.lines.Text(), "data: ")), &found))
	require.Equal(t, attack, found.Lines[0].Text)
}

func TestAUserLeavesStreamsToOthers(t *testing.T) {
	t.Parallel()
	server := serve(t, newHome())
	open := 0
	for {
		_, status := follow(t, server, "/api/v1/events/live", ownersToken)
		if status != http.StatusOK {
			require.Equal(t, http.StatusTooManyRequests, status)
			break
		}
		open++
	}
	require.Equal(t, maxStreams/2, open)
	stream, status := follow(t, server, "/api/v1/live", readersToken)
	require.Equal(t, http.StatusOK, status, "another user has a share as well")
	var state change
	stream.next("state", &state)
}

func TestAPlaceIsFreeAgainWhenAStreamEnds(t *testing.T) {
	t.Parallel()
	home := newHome()
	h := home.handler(t)
	server := httptest.NewServer(h)
	defer server.Close()
	stream, _ := follow(t, server, "/api/v1/live", ownersToken)
	var state change
	stream.next("state", &state)
	require.EqualValues(t, 1, h.streams.Held("owner"))
	stream.end()
	require.Eventually(t, func() bool { return h.streams.Held("owner") == 0 }, time.Minute, 10*time.Millisecond)
}

func TestMoreLinesThanFitAreCounted(t *testing.T) {
	t.Parallel()
	var lines lineBuffer
	for range waitingLines + 5 {
		lines.add(Line{Text: "x"})
	}
	found := lines.take()
	require.Len(t, found.Lines, waitingLines)
	require.Equal(t, 5, found.Skipped)
	for range 3 {
		lines.add(Line{Text: strings.Repeat("x", waitingBytes)})
	}
	require.Len(t, lines.take().Lines, 1, "and their bytes are bounded")
}

func TestPathsOfATurnAreBounded(t *testing.T) {
	t.Parallel()
	b := newBatch(10)
	for i := range maxPaths * 2 {
		b.add(journal.Record{Kind: journal.Stored, Type: strconv.Itoa(i)})
	}
	b.add(journal.Record{Kind: journal.Skipped, Count: 7})
	flow, moved := b.take()
	require.True(t, moved)
	require.Len(t, flow.Paths, maxPaths)
	require.Len(t, flow.Records, 10)
	require.Equal(t, 7, flow.Lost)
	_, moved = b.take()
	require.False(t, moved)
}

func TestAStateThatWasTakenAtTheSameTimeIsNotComparedAgain(t *testing.T) {
	t.Parallel()
	d, at := newDiffer(), time.Now()
	asleep, awake := []Function{{Name: "pricing", Phase: "asleep"}}, []Function{{Name: "pricing", Phase: "ready"}}
	for i, tc := range []struct {
		state   Snapshot
		changed bool
	}{
		{Snapshot{Taken: at, Functions: asleep}, true},
		{Snapshot{Taken: at, Functions: awake}, false},
		{Snapshot{Taken: at.Add(1), Functions: awake}, true},
		{Snapshot{Taken: at.Add(2), Functions: awake}, false},
		{Snapshot{Functions: asleep}, true},
		{Snapshot{Functions: awake}, true},
	} {
		change, err := d.diff(&tc.state)
		require.NoError(t, err)
		require.Equal(t, tc.changed, change != nil, i)
	}
}

// A browser decompresses what has come, so nothing may stay in the server until more follows.
func TestAStreamIsCompressedAndEachEventPassesAtOnce(t *testing.T) {
	t.Parallel()
	home := newHome()
	server := serve(t, home)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/live", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+ownersToken)
	request.Header.Set("Accept-Encoding", "gzip")
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, "gzip", response.Header.Get("Content-Encoding"))
	body, err := gzip.NewReader(response.Body)
	require.NoError(t, err)
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 4<<20)
	stream := &reader{t: t, lines: lines}
	var state change
	stream.next("state", &state)
	for i := range 3 {
		home.journal.Add(journal.Record{Kind: journal.Stored, ID: strconv.Itoa(i), Type: "order.received"})
		var flow Flow
		stream.next("flow", &flow)
		require.Equal(t, strconv.Itoa(i), flow.Records[0].ID)
	}
}
