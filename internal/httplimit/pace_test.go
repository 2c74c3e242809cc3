package httplimit

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/fair"
)

func TestAClientThatKeepsItsPaceIsNeverBehind(t *testing.T) {
	t.Parallel()
	now, m := time.Unix(1000, 0), Meter{Rate: 1000}
	for range 100 {
		require.Equal(t, now, m.Begin(now))
		require.Equal(t, now.UnixNano(), m.Since())
		now = now.Add(time.Second)
		m.End(now, 1000)
		require.Zero(t, m.Since())
		now = now.Add(time.Hour) // while the server does not read
	}
}

func TestAClientThatTricklesFallsBehind(t *testing.T) {
	t.Parallel()
	now, m := time.Unix(1000, 0), Meter{Rate: 1000}
	for i := range 10 {
		require.Equal(t, now.Add(-time.Duration(i*999)*time.Millisecond), m.Begin(now))
		now = now.Add(time.Second)
		m.End(now, 1)
	}
	m.Begin(now)
	m.End(now, 5000)
	require.Equal(t, now.Add(-5*time.Second+10*time.Millisecond), m.Begin(now), "it catches up as fast as it sends")
	m.Reset()
	require.Equal(t, now, m.Begin(now))
}

func TestBytesAheadOfThePaceGiveNoLaterCredit(t *testing.T) {
	t.Parallel()
	now, m := time.Unix(1000, 0), Meter{Rate: 1000}
	m.Begin(now)
	m.End(now, 1<<30)
	m.Begin(now)
	now = now.Add(time.Second)
	m.End(now, 0)
	require.Equal(t, now.Add(-time.Second), m.Begin(now))
}

func TestClientWithCreditMayPauseForItsCredit(t *testing.T) {
	t.Parallel()
	now, m := time.Unix(1000, 0), Meter{Rate: 1000, Ahead: 5 * time.Second}
	m.Begin(now)
	m.End(now, 3000)
	require.Equal(t, now.Add(3*time.Second), m.Begin(now))
	m.End(now, 1<<30)
	require.Equal(t, now.Add(5*time.Second), m.Begin(now))
}

// Each line of four bytes takes a hundred in memory, so an endless header is cut off.
func TestLinesOfAResponseAreCountedAsTheyArrive(t *testing.T) {
	t.Parallel()
	const ok, early = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 103 Early Hints\r\n"
	many := strings.Repeat("a:\r\n", maxLinesRead)
	for name, tc := range map[string]struct {
		text string
		err  error
	}{
		"without an end":                  {text: ok + many, err: ErrHeadLines},
		"of interim answers as well":      {text: strings.Repeat(early+strings.Repeat("a:\r\n", 50)+"\r\n", 3), err: ErrHeadLines},
		"behind an interim answer":        {text: early + "\r\n" + ok + many, err: ErrHeadLines},
		"of many bytes":                   {text: ok + "a: " + strings.Repeat("a", MaxHeadBytes), err: ErrHeadBytes},
		"without carriage returns":        {text: strings.ReplaceAll(ok+many, "\r", ""), err: ErrHeadLines},
		"not those of a body":             {text: ok + "\r\n" + many},
		"not behind another protocol":     {text: "HTTP/1.1 101 Switching Protocols\r\n\r\n" + many},
		"not those of a few interim ones": {text: early + "\r\n" + early + "\r\n" + ok + strings.Repeat("a:\r\n", MaxHeadLines) + "\r\n" + many},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 7, len(tc.text)} {
				var h Head
				var err error
				for part := range slices.Chunk([]byte(tc.text), size) {
					if _, err = h.Read(part); err != nil {
						break
					}
				}
				require.Equal(t, tc.err, err)
				require.Equal(t, tc.err == nil, h.over)
			}
		})
	}
}

// pipe returns a connection whose server sends the given response.
func pipe(t *testing.T, answer string) *conn {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { require.NoError(t, errors.Join(here.Close(), there.Close())) })
	go func() { _, _ = io.WriteString(there, answer) }()
	return &conn{Conn: here}
}

// A reader of lines drops everything after a complete line, including errors.
func TestResponseWithTooManyLinesIsNotReadFurther(t *testing.T) {
	t.Parallel()
	c, buffer := pipe(t, strings.Repeat("a:\r\n", maxLinesRead+10)), make([]byte, 4<<10)
	n, err := c.Read(buffer)
	require.NoError(t, err, "net/http would send a request again that failed before its answer began")
	require.Equal(t, maxLinesRead, strings.Count(string(buffer[:n]), "\n"))
	for range 2 {
		_, err := c.Read(buffer)
		require.ErrorIs(t, err, ErrHeadLines)
	}
}

func TestLongHeadHoldsMemoryOfItsKeyUntilItsRequestEnds(t *testing.T) {
	t.Parallel()
	memory := fair.NewPool(fair.Limits{Total: 2 * HeadCost})
	long := "HTTP/1.1 200 OK\r\n" + strings.Repeat("a:\r\n", shortLines) + "\r\n"
	read := func(a *HeadAccount, answer string) error {
		c := pipe(t, answer)
		a.Picked(c)
		_, err := io.ReadFull(c, make([]byte, len(answer)))
		return err
	}
	var short, first, second, other, late HeadAccount
	for _, each := range []*HeadAccount{&short, &first, &second, &late} {
		each.Open(memory, "shop")
	}
	other.Open(memory, "other")
	require.NoError(t, read(&short, "HTTP/1.1 200 OK\r\n\r\n"+strings.Repeat("a:\r\n", 1000)))
	require.Zero(t, memory.Held("shop"), "a short head is free, as is a body")
	require.NoError(t, read(&first, long))
	require.ErrorIs(t, read(&second, long), ErrHeadShare)
	require.NoError(t, read(&other, long), "another namespace must have its own share")
	first.Close()
	require.Zero(t, memory.Held("shop"))
	require.NoError(t, read(&second, long))
	second.Close()
	late.Close()
	require.NoError(t, read(&late, long), "the request has ended")
	other.Close()
	require.Zero(t, memory.Held("shop")+memory.Held("other"))
}

func TestHeaderMayHaveTheMaximumNumberOfLines(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckHead(http.Header{"A": make([]string, MaxHeadLines)}))
	require.ErrorIs(t, CheckHead(http.Header{"A": make([]string, MaxHeadLines), "B": {""}}), ErrHeadLines)
}
