package sink

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestRetryAfterIsReadInBothForms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		value string
		want  time.Duration
	}{
		"seconds":            {value: "7", want: 7 * time.Second},
		"a date":             {value: now.Add(time.Minute).Format(http.TimeFormat), want: time.Minute},
		"a date in the past": {value: now.Add(-time.Minute).Format(http.TimeFormat)},
		"negative seconds":   {value: "-3"},
		"too many seconds":   {value: "99999999999", want: 24 * time.Hour},
		"nothing":            {value: ""},
		"nonsense":           {value: "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, retryAfter(tc.value, now))
		})
	}
}

func TestAnExcerptIsShortAndValidText(t *testing.T) {
	t.Parallel()
	body := strings.NewReader("\xff" + strings.Repeat("x", drainSize*2))
	answer, drained, err := readAnswer(t.Context(), &http.Response{StatusCode: http.StatusBadRequest, Body: io.NopCloser(body)}, replyReader{most: 1})
	require.Equal(t, "\uFFFD"+strings.Repeat("x", excerptSize-1), answer.Excerpt)
	require.NoError(t, err)
	require.False(t, drained)
	require.Equal(t, drainSize+1, body.Len(), "no more is read than pays off")

	success, drained, err := readAnswer(t.Context(), &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("hello"))}, replyReader{most: 1})
	require.NoError(t, err)
	require.True(t, drained)
	require.Empty(t, success.Excerpt)
}

func TestAnAnswerThatIsAnEventIsAReply(t *testing.T) {
	t.Parallel()
	structured := `{"specversion":"1.0","id":"2","source":"price","type":"order.priced.v1","data":{"eur":7}}`
	for name, tc := range map[string]struct {
		header  map[string]string
		status  int
		body    string
		want    string // type of the reply
		wantErr string // of the error
	}{
		"in structured mode": {
			header: map[string]string{"Content-Type": "application/cloudevents+json; charset=utf-8"}, body: structured, want: "order.priced.v1",
		},
		"in binary mode": {
			header: map[string]string{
				"Ce-Specversion": "1.0", "Ce-Id": "2", "Ce-Source": "price", "Ce-Type": "order.priced.v1", "Content-Type": "application/json",
			}, body: `{"eur":7}`, status: http.StatusAccepted, want: "order.priced.v1",
		},
		"no event":                  {header: map[string]string{"Content-Type": "application/json"}, body: structured},
		"a failure":                 {header: map[string]string{"Content-Type": "application/cloudevents+json"}, status: http.StatusConflict, body: structured},
		"invalid JSON":              {header: map[string]string{"Content-Type": "application/cloudevents+json"}, body: "{", wantErr: "not a structured CloudEvent"},
		"an event without a type":   {header: map[string]string{"Ce-Specversion": "1.0", "Ce-Id": "2", "Ce-Source": "price"}, wantErr: "type: MUST"},
		"more than any store takes": {header: map[string]string{"Ce-Specversion": "1.0"}, body: strings.Repeat("x", 1<<20+1), wantErr: "more than"},
		"many extensions": {
			header: map[string]string{"Content-Type": "application/cloudevents+json"},
			body:   strings.Replace(structured, `"id"`, extensions(bounds.Extensions+1)+`"id"`, 1), wantErr: "more than 64 extensions",
		},
		"long extensions": {
			header: map[string]string{"Content-Type": "application/cloudevents+json"},
			body:   strings.Replace(structured, `"id"`, `"a":"`+strings.Repeat("x", bounds.Attributes)+`","id"`, 1), wantErr: "more than 16384 bytes",
		},
		"an unknown version": {header: map[string]string{"Ce-Specversion": "7"}, wantErr: "unknown specversion"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range tc.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(max(tc.status, http.StatusOK))
				_, _ = w.Write([]byte(tc.body))
			})
			s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
			open(t, s)
			answer, err := s.Send(t.Context(), order("1"))
			require.NoError(t, err)
			switch {
			case tc.want != "":
				require.NoError(t, answer.ReplyError)
				require.Equal(t, tc.want, answer.Reply.Type)
				require.JSONEq(t, `{"eur":7}`, string(answer.Reply.Data))
			case tc.wantErr != "":
				require.ErrorContains(t, answer.ReplyError, tc.wantErr)
				require.Nil(t, answer.Reply)
			default:
				require.Nil(t, answer.Reply)
				require.NoError(t, answer.ReplyError)
			}
		})
	}
}

func extensions(count int) string {
	var members strings.Builder
	for i := range count {
		fmt.Fprintf(&members, `"e%d":"1",`, i)
	}
	return members.String()
}

func TestAReplyOfManyExtensionsIsNotReadToItsEnd(t *testing.T) {
	resp := &http.Response{Header: http.Header{"Content-Type": {structuredType}}} // not parallel: it counts allocations
	body := []byte(`{"specversion":"1.0",` + extensions(80_000) + `"id":"2","source":"price","type":"order.priced.v1"}`)
	require.Less(t, testing.AllocsPerRun(3, func() {
		_, err := readReply(resp, body, int64(len(body)))
		require.ErrorContains(t, err, "more than 64 extensions")
	}), float64(4*bounds.Extensions))
}

// The same holds for what is sent by net/http.
func TestALongHeaderOfAnAnswerIsNotRead(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]http.Header{
		"bytes": {"A": {strings.Repeat("a", httplimit.MaxHeadBytes)}},
		"lines": {"A": slices.Repeat([]string{"b"}, httplimit.MaxHeadLines+1)},
	} {
		for size, ev := range map[string]*cloudevent.Event{"small": order("1"), "large": large()} {
			t.Run(name+" "+size, func(t *testing.T) {
				t.Parallel()
				server := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) { maps.Copy(w.Header(), header) })
				s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
				open(t, s)
				_, err := s.Send(t.Context(), ev)
				require.Error(t, err)
				require.NotErrorIs(t, err, dispatch.ErrSinkGone)
			})
		}
	}
}

// A header of tiny lines takes a hundred times its size, for as long as a sink does not end it.
func TestTinyLinesOfAnAnswerAreNotKept(t *testing.T) {
	t.Parallel()
	hang := func(net.Conn) { <-t.Context().Done() }
	address, _ := raw(t, hang, "HTTP/1.1 200 OK\r\n"+strings.Repeat("a:\r\n", 2*httplimit.MaxHeadLines))
	s := run(t, loopback.NewEndpoints(loopback.Ready(address)), DefaultOptions())
	open(t, s)
	for name, ev := range map[string]*cloudevent.Event{"small": order("1"), "large": large()} {
		_, err := s.Send(t.Context(), ev) // which else takes as long as a delivery may
		require.ErrorContains(t, err, httplimit.ErrHeadLines.Error(), name)
	}
}

// Answers on one connection are counted each for itself, and all of them.
func TestEachAnswerOfAConnectionIsCounted(t *testing.T) {
	t.Parallel()
	const fine = 4
	begin := "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n" + strings.Repeat("a: b\r\n", httplimit.MaxHeadLines-1)
	var answers atomic.Int32
	address, _ := raw(t, func(conn net.Conn) {
		end := "\r\n\n\n\n"
		if answers.Add(1) > fine {
			end = strings.Repeat("a:\r\n", 2*httplimit.MaxHeadLines)
		}
		_, _ = io.WriteString(conn, end)
	}, begin)
	s := run(t, loopback.NewEndpoints(loopback.Ready(address)), DefaultOptions())
	open(t, s)
	for range fine {
		_, err := s.Send(t.Context(), large())
		require.NoError(t, err)
	}
	_, err := s.Send(t.Context(), large())
	require.ErrorContains(t, err, httplimit.ErrHeadLines.Error())
}

func large() *cloudevent.Event {
	ev := order("1")
	ev.Data = bytes.Repeat([]byte("x"), maxDirect+1)
	return ev
}

// Many sinks answer with as much as they may. What the budget has no memory for yet is left in the network.
func TestRepliesWaitForTheMemoryBudget(t *testing.T) {
	t.Parallel()
	const calls, size = 20, 256 << 10
	server := loopback.StartSink(t, func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{"Specversion": "1.0", "Id": "2", "Source": "price", "Type": "order.priced.v1"} {
			w.Header().Set("Ce-"+name, value)
		}
		body := make([]byte, size)
		if r.Header.Get("Ce-Id") == "told" {
			w.Header().Set("Content-Length", strconv.Itoa(size))
		}
		_, _ = w.Write(body)
	})
	options := DefaultOptions()
	options.MaxReplySize = size
	network := NewNetwork(options)
	t.Cleanup(network.Close)
	memory := fair.NewBudget(4*replyFactor*size, 0)
	endpoints := loopback.NewEndpoints(loopback.Ready(server.Address()))
	s, err := New(Target{URL: sinkURL}, Deps{Network: network, Endpoints: endpoints, ReplyMemory: memory.Share("shop"), Log: logr.Discard()})
	require.NoError(t, err)
	open(t, start(t, s))
	var sending sync.WaitGroup
	for i := range calls {
		sending.Go(func() {
			answer, err := s.Send(t.Context(), order([]string{"told", "untold"}[i%2]))
			if assert.NoError(t, err) && assert.NotNil(t, answer.Reply, "%v", answer.ReplyError) {
				assert.Len(t, answer.Reply.Data, size)
				assert.LessOrEqual(t, memory.Used(), int64(4*replyFactor*size))
				answer.Release()
			}
		})
	}
	sending.Wait()
	require.Zero(t, memory.Used())
}

func TestAReplyWithoutMemoryInTimeIsNoAnswer(t *testing.T) {
	t.Parallel()
	memory := fair.NewBudget(100, 0).Share("shop")
	memory.Overdraw(100)
	replies := replyReader{most: 1 << 20, memory: memory, until: time.Now().Add(10 * time.Millisecond)}
	body := io.NopCloser(strings.NewReader(strings.Repeat("x", 2*smallReply)))
	_, _, err := replies.read(t.Context(), &http.Response{ContentLength: -1, Body: body})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
