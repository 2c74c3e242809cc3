package sink

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

// Each line of four bytes takes a hundred in memory, so a sink that does not end its header gets no further.
func TestLinesOfAnAnswerAreCountedAsTheyCome(t *testing.T) {
	t.Parallel()
	const ok, early = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 103 Early Hints\r\n"
	many := strings.Repeat("a:\r\n", maxLinesRead)
	for name, tc := range map[string]struct {
		text string
		err  error
	}{
		"without an end":                  {text: ok + many, err: errManyLines},
		"of interim answers as well":      {text: strings.Repeat(early+strings.Repeat("a:\r\n", 50)+"\r\n", 3), err: errManyLines},
		"behind an interim answer":        {text: early + "\r\n" + ok + many, err: errManyLines},
		"without carriage returns":        {text: strings.ReplaceAll(ok+many, "\r", ""), err: errManyLines},
		"not those of a body":             {text: ok + "\r\n" + many},
		"not behind another protocol":     {text: "HTTP/1.1 101 Switching Protocols\r\n\r\n" + many},
		"not those of a few interim ones": {text: early + "\r\n" + early + "\r\n" + ok + strings.Repeat("a:\r\n", maxLines) + "\r\n" + many},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 7, len(tc.text)} {
				var h header
				var err error
				for part := range slices.Chunk([]byte(tc.text), size) {
					if err = h.read(part); err != nil {
						break
					}
				}
				require.Equal(t, tc.err, err)
				require.Equal(t, tc.err == nil, h.over)
			}
		})
	}
}
