package activation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAWakeIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	written := Wake{Cause: WokenByRequest, Began: time.Date(2026, 5, 1, 12, 4, 10, 5e6, time.UTC), SentMS: 3, AddressedMS: 278, ReadyMS: 912}
	text, err := written.Encode()
	require.NoError(t, err)
	read, err := DecodeWake(text)
	require.NoError(t, err)
	require.Equal(t, written, read)
}

func TestAMalformedWakeIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "[]", `{}`, `{"cause":"magic","began":"2026-05-01T12:00:00Z"}`, `{"cause":"poll"}`,
		`{"cause":"poll","began":"2026-05-01T12:00:00Z","readyMs":-1}`,
		`{"cause":"poll","began":"2026-05-01T12:00:00Z","sentMs":86400001}`,
	} {
		_, err := DecodeWake([]byte(text))
		require.Error(t, err, text)
	}
}
