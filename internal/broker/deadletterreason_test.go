package broker

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
)

// withSentence is a dead letter of orders as it was stored when its reason was a sentence.
func withSentence(id, sentence string) *nats.Msg {
	deadLetter := DeadLetter{Subscription: orders, Attempts: 3}.message(given(nil, 1, nil), time.Unix(0, 0))
	deadLetter.Header.Del(HeaderDeadLetterMessage)
	deadLetter.Header.Set(HeaderDeadLetterReason, sentence)
	deadLetter.Header.Set(nats.MsgIdHdr, id)
	deadLetter.Data = []byte(`{"rousereason":"` + sentence + `","specversion":"1.0","id":"` + id + `","source":"shop","type":"order.v1"}`)
	return deadLetter
}

func TestADeadLetterWithASentenceForAReasonMeansItsCode(t *testing.T) {
	t.Parallel()
	_, conn := startWithConsumers(t, orders)
	add := func(deadLetter *nats.Msg) {
		_, err := conn.js.PublishMsg(t.Context(), deadLetter)
		require.NoError(t, err)
	}
	add(withSentence("1", "all attempts failed"))
	add(withSentence("2", "sink refused the event"))
	add(withSentence("3", "the moon was full"))
	add(&nats.Msg{Subject: routing.DeadLetterSubject(orders), Data: []byte("another client's")})
	addDeadLetters(t, conn, orders, failure.AttemptsExhausted, 5, 1)

	page, err := conn.ListDeadLetters(t.Context(), DeadLetterQuery{Limit: 9})
	require.NoError(t, err)
	type why struct {
		reason  failure.Reason
		message string
	}
	var got []why
	for _, deadLetter := range page.DeadLetters {
		got = append(got, why{deadLetter.Reason, deadLetter.Message})
	}
	require.Equal(t, []why{
		{failure.AttemptsExhausted, failure.AttemptsExhausted.Message()},
		{failure.SinkRejected, failure.SinkRejected.Message()},
		{failure.Unknown, "the moon was full"},
		{failure.Unknown, failure.Unknown.Message()},
		{failure.AttemptsExhausted, failure.AttemptsExhausted.Message()},
	}, got)

	redriven, err := conn.Redrive(t.Context(), testStream, selectionOf(orders, failure.AttemptsExhausted))
	require.NoError(t, err)
	require.Equal(t, Redriven{Redriven: 2, Remaining: 3}, redriven)
	purged, err := conn.Purge(t.Context(), DeadLetterSelection{Reason: failure.Unknown})
	require.NoError(t, err)
	require.EqualValues(t, 2, purged)
}

func TestASinkOfDeadLettersGetsTheCodeForASentence(t *testing.T) {
	t.Parallel()
	m := DeadLetterMessage{Message: &Message{raw: withSentence("1", "all attempts failed"), metadata: &nats.MsgMetadata{}}}
	ev, err := m.Event()
	require.NoError(t, err)
	require.Equal(t, "AttemptsExhausted", ev.Extension(ExtensionDeadLetterReason))
	require.Equal(t, "all attempts failed", ev.Extension(ExtensionDeadLetterMessage))
}

func TestAReasonThatANewerVersionStoredIsKept(t *testing.T) {
	t.Parallel()
	deadLetter := DeadLetter{Subscription: orders, Reason: "MoonWasFull"}.message(given(nil, 1, nil), time.Unix(0, 0))
	deadLetter.Header.Set(HeaderDeadLetterMessage, "the moon was full")
	reason, message, ok := reasonOf(deadLetter.Header)
	require.True(t, ok)
	require.Equal(t, failure.Reason("MoonWasFull"), reason)
	require.Equal(t, "the moon was full", message)
}
