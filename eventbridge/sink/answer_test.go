package sink

import (
	"io"
	"net/http"
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
