package target

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

func TestALineOfALogIsCutForAProcessWithUsers(t *testing.T) {
	t.Parallel()
	log := "2026-11-27T10:00:00Z first\n" + strings.Repeat("x", 1<<20) + "\nlast"
	var lines []string
	require.NoError(t, readLines(t.Context(), "pod", strings.NewReader(log), usersLine, func(text string) { lines = append(lines, text) }))
	require.Len(t, lines, 3)
	require.Equal(t, "2026-11-27T10:00:00Z first", lines[0])
	require.Len(t, lines[1], usersLine)
	require.Equal(t, "last", lines[2])
	lines = nil
	require.NoError(t, readLines(t.Context(), "pod", strings.NewReader(log), 0, func(text string) { lines = append(lines, text) }))
	require.Len(t, lines[1], 1<<20, "a command line shows all of it")
}

func TestALogIsReadAtThePaceOfItsFunction(t *testing.T) {
	t.Parallel()
	const burst = 1000
	pace := rate.NewLimiter(rate.Every(time.Hour), burst)
	log := paced{ctx: t.Context(), log: strings.NewReader(strings.Repeat("x", 3*burst)), pace: pace}
	n, err := log.Read(make([]byte, 4096))
	require.NoError(t, err)
	require.Equal(t, burst, n)
	require.Less(t, pace.Tokens(), 1.0)
}
