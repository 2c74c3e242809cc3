package failure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryReasonIsACodeWithAMessage(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for reason, message := range messages {
		require.Regexp(t, `^([A-Z][a-z]*)+$`, string(reason))
		require.NotEmpty(t, message, reason)
		require.False(t, seen[message], "two reasons have the message %q", message)
		seen[message] = true
	}
	for _, reason := range DeadLetters() {
		require.NotEmpty(t, reason.Message(), reason)
	}
}

func TestAReasonOfDeadLettersIsFoundByItsExactCode(t *testing.T) {
	t.Parallel()
	for _, reason := range DeadLetters() {
		got, err := ParseDeadLetter(string(reason))
		require.NoError(t, err)
		require.Equal(t, reason, got)
	}
	for _, other := range []string{"", "sinkrejected", "sink refused the event", string(SinkFailed)} {
		_, err := ParseDeadLetter(other)
		require.ErrorContains(t, err, "use one of SinkRejected, AttemptsExhausted, NotACloudEvent, NotSendable, TooManyReplies, TooManyCaused, Expired, QuotaExceeded, Unknown", other)
	}
}

func TestASentenceOfAnEarlierVersionMeansItsCode(t *testing.T) {
	t.Parallel()
	for sentence, want := range map[string]Reason{
		"sink refused the event":         SinkRejected,
		"all attempts failed":            AttemptsExhausted,
		"message is not a CloudEvent":    NotACloudEvent,
		"event cannot be sent over HTTP": NotSendable,
		"too many replies in a chain":    TooManyReplies,
	} {
		reason, message := OfSentence(sentence)
		require.Equal(t, want, reason)
		require.Equal(t, want.Message(), message)
	}
	reason, message := OfSentence("the moon was full")
	require.Equal(t, Unknown, reason)
	require.Equal(t, "the moon was full", message)
	reason, message = OfSentence("")
	require.Equal(t, Unknown, reason)
	require.Equal(t, "the reason is not known", message)
}
