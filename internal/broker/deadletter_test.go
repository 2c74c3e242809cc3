package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

var (
	orders  = types.NamespacedName{Namespace: "shop", Name: "orders"}
	parcels = types.NamespacedName{Namespace: "shop", Name: "parcels.v1"}
	ledgers = types.NamespacedName{Namespace: "bank", Name: "ledgers"}
)

const (
	reasonRefused   = failure.SinkRejected
	reasonExhausted = failure.AttemptsExhausted
)

// structuredEvent is written in a way that no encoder here would choose, to see that its bytes survive.
func structuredEvent(id string) []byte {
	return fmt.Appendf(nil, "\n{ \"specversion\":\"1.0\",\"id\":%q,  \"source\":\"shop\",\"type\":\"kyma.shop.order.v1\","+
		"\"originaltype\":\"order.v1\",\"data\":{\"price\":1.50, \"n\":12345678901234567890} }\n", id)
}

// given is a message as a consumer hands it out, the n-th of its stream.
func given(conn *Conn, n uint64, body []byte) *Message {
	return &Message{
		conn: conn,
		raw: &nats.Msg{
			Subject: "kyma.shop.order.v1", Data: body,
			Header: nats.Header{"ce-id": {"h"}, "Nats-Msg-Id": {"x"}, "Traceparent": {"00-1"}},
		},
		metadata: &nats.MsgMetadata{
			Consumer: "c", Sequence: nats.SequencePair{Stream: n}, Timestamp: time.Unix(1_700_000_000, int64(n)),
		},
	}
}

// addDeadLetters stores dead letters and returns after all are there. Their events are called from..from+count-1.
func addDeadLetters(t *testing.T, conn *Conn, subscription types.NamespacedName, reason failure.Reason, from, count int) {
	t.Helper()
	var confirmations []jetstream.PubAckFuture
	for i := from; i < from+count; i++ {
		deadLetter := DeadLetter{Subscription: subscription, Reason: reason, Attempts: 3, Status: 500, BodyExcerpt: `no "db"`}
		message := given(conn, uint64(i), structuredEvent(strconv.Itoa(i)))
		message.metadata.Consumer = subscription.String()
		confirmation, err := conn.js.PublishMsgAsync(deadLetter.message(message, time.Now()))
		require.NoError(t, err)
		confirmations = append(confirmations, confirmation)
	}
	for _, confirmation := range confirmations {
		select {
		case <-confirmation.Ok():
		case err := <-confirmation.Err():
			require.NoError(t, err)
		case <-time.After(testTimeout):
			require.FailNow(t, "a dead letter is not confirmed")
		}
	}
}

// startWithConsumers is a server on which the Subscriptions have their consumers.
func startWithConsumers(t *testing.T, subscriptions ...types.NamespacedName) (*natstest.Server, *Conn) {
	t.Helper()
	server, conn := start(t)
	for _, subscription := range subscriptions {
		ensureRedeliveryConsumer(t, conn, subscription)
	}
	return server, conn
}

func ensureRedeliveryConsumer(t *testing.T, conn *Conn, subscription types.NamespacedName) {
	t.Helper()
	name := routing.ConsumerName(subscription.Namespace, subscription.Name)
	ensureConsumer(t, conn, Consumer{
		Name: name, Subjects: []string{"kyma." + subscription.Namespace + ".order.v1", routing.RedeliverySubject(name)},
	})
}

// takeAll takes what waits for a Subscription off its consumer.
func takeAll(t *testing.T, conn *Conn, subscription types.NamespacedName) []jetstream.Msg {
	t.Helper()
	consumer, err := conn.js.Consumer(t.Context(), testStream, routing.ConsumerName(subscription.Namespace, subscription.Name))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 4*testTimeout) // for thousands of them, on a busy machine
	defer cancel()
	var all []jetstream.Msg
	for {
		batch, err := consumer.FetchNoWait(1000)
		require.NoError(t, err)
		for message := range batch.Messages() {
			require.NoError(t, message.Ack()) // which deletes it
			all = append(all, message)
		}
		require.NoError(t, batch.Error())
		if !holdsFor(ctx, t, conn, consumer) {
			return all
		}
		time.Sleep(moment) // a message is stored a moment before its consumer counts it
	}
}

// holdsFor reports whether the stream has messages that the consumer asks for.
func holdsFor(ctx context.Context, t *testing.T, conn *Conn, consumer jetstream.Consumer) bool {
	t.Helper()
	stream, err := conn.js.Stream(ctx, testStream)
	require.NoError(t, err)
	filters := consumer.CachedInfo().Config
	for _, subject := range append(filters.FilterSubjects, filters.FilterSubject) {
		if subject == "" {
			continue
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
		require.NoError(t, err)
		if len(info.State.Subjects) > 0 {
			return true
		}
	}
	return false
}

func counts(t *testing.T, conn *Conn) map[types.NamespacedName]uint64 {
	t.Helper()
	all, err := conn.DeadLetterCounts(t.Context())
	require.NoError(t, err)
	return all
}

func TestADeadLetterIsACloudEventWithItsReason(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	deadLetter := DeadLetter{
		Subscription: parcels, Reason: reasonRefused, Attempts: 4, Status: 422, BodyExcerpt: "no <such>\n\x1b \"parcel\" \\ é",
	}
	require.NoError(t, conn.AddDeadLetter(t.Context(), deadLetter, given(conn, 7, structuredEvent("e"))))

	stored, err := conn.DeadLetter(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, stored.Structured)
	require.WithinDuration(t, time.Now(), stored.Time, time.Minute)
	require.True(t, stored.Stored.Equal(time.Unix(1_700_000_000, 7)))
	body := stored.Body
	stored.Body, stored.Time, stored.Stored = nil, time.Time{}, time.Time{}
	require.Equal(t, StoredDeadLetter{
		Sequence: 1, Subscription: parcels, Reason: reasonRefused, Message: "sink refused the event", Attempts: 4, Status: 422,
		Excerpt: "no <such> \x1b \"parcel\" \\ é", Subject: "kyma.shop.order.v1",
		ID: "e", Source: "shop", Type: "order.v1", Structured: true,
	}, stored)

	var e event.Event
	require.NoError(t, json.Unmarshal(body, &e), "%s", body)
	require.NoError(t, e.Validate())
	extensions := e.Extensions()
	require.NotEmpty(t, extensions[ExtensionDeadLetterTime])
	delete(extensions, ExtensionDeadLetterTime)
	require.Equal(t, map[string]any{
		ExtensionDeadLetterReason: "SinkRejected", ExtensionDeadLetterMessage: "sink refused the event", ExtensionDeadLetterAttempts: int32(4), ExtensionDeadLetterStatus: int32(422),
		ExtensionDeadLetterExcerpt: "no <such>  \"parcel\" \\ é", ExtensionDeadLetterSubscription: "shop/parcels.v1",
		ExtensionOriginalType: "order.v1",
	}, extensions)
}

func TestADeadLetterFitsMaxPayloadWheneverItsEventDid(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.WithMaxPayload(64<<10))
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()))
	frame := `{"specversion":"1.0","id":"e","source":"shop","type":"kyma.shop.order.v1","data":""}`
	message := given(conn, 1, nil)
	free := int(conn.nc.MaxPayload()) - deadLetterReserve - message.raw.Size() - len(frame)
	message.raw.Data = []byte(strings.Replace(frame, `""`, `"`+strings.Repeat("x", free)+`"`, 1))
	deadLetter := DeadLetter{
		Subscription: types.NamespacedName{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("s", 253)},
		Reason:       failure.Reason(strings.Repeat(`"`, 500)), Attempts: 1 << 30, Status: 500, BodyExcerpt: strings.Repeat(`"`, 5000),
	}

	require.NoError(t, conn.AddDeadLetter(t.Context(), deadLetter, message))
	stored, err := conn.DeadLetter(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, message.raw.Data, stored.Body, "the extensions did not fit")
	require.Equal(t, strings.Repeat(`"`, maxExcerpt), stored.Excerpt)
}

func TestAnEventThatCameBackKeepsItsSubjectAndTime(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	message := given(conn, 9, structuredEvent("e"))
	message.raw.Subject = routing.RedeliverySubject("c")
	message.raw.Header.Set(HeaderSubject, "kyma.shop.order.v1")
	message.raw.Header.Set(HeaderStored, "2026-01-02T03:04:05Z")
	require.NoError(t, conn.AddDeadLetter(t.Context(), DeadLetter{Subscription: orders}, message))
	stored, err := conn.DeadLetter(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "kyma.shop.order.v1", stored.Subject)
	require.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), stored.Stored)
}

func TestDeadLetterCountsArePerSubscription(t *testing.T) {
	t.Parallel()
	server, conn := start(t)
	require.Empty(t, counts(t, conn))
	addDeadLetters(t, conn, orders, reasonRefused, 1, 3)
	addDeadLetters(t, conn, parcels, reasonRefused, 1, 2)
	addDeadLetters(t, conn, ledgers, reasonRefused, 1, 1)
	require.Equal(t, map[types.NamespacedName]uint64{orders: 3, parcels: 2, ledgers: 1}, counts(t, conn))

	server.Stop()
	require.Eventually(t, func() bool { return !conn.Connected() }, testTimeout, moment)
	_, err := conn.DeadLetterCounts(t.Context())
	require.ErrorIs(t, err, ErrNotConnected)
	_, err = conn.ListDeadLetters(t.Context(), DeadLetterQuery{Limit: 1})
	require.ErrorIs(t, err, ErrNotConnected)
	_, err = conn.DeadLetter(t.Context(), 1)
	require.ErrorIs(t, err, ErrNotConnected)
	_, err = conn.Redrive(t.Context(), testStream, DeadLetterSelection{})
	require.ErrorIs(t, err, ErrNotConnected)
	_, err = conn.Purge(t.Context(), DeadLetterSelection{})
	require.ErrorIs(t, err, ErrNotConnected)
}

func TestListDeadLettersHasPages(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	addDeadLetters(t, conn, orders, reasonRefused, 1, 3)    // sequences 1 to 3
	addDeadLetters(t, conn, parcels, reasonExhausted, 1, 2) // 4 and 5
	addDeadLetters(t, conn, ledgers, reasonRefused, 1, 1)   // 6
	addDeadLetters(t, conn, orders, reasonExhausted, 4, 2)  // 7 and 8

	for name, tc := range map[string]struct {
		query DeadLetterQuery
		want  []uint64
		next  uint64
	}{
		"all":                       {DeadLetterQuery{Limit: 100}, []uint64{1, 2, 3, 4, 5, 6, 7, 8}, 0},
		"a first page":              {DeadLetterQuery{Limit: 3}, []uint64{1, 2, 3}, 3},
		"a last page":               {DeadLetterQuery{Limit: 3, After: 6}, []uint64{7, 8}, 0},
		"a namespace":               {DeadLetterQuery{DeadLetterSelection: DeadLetterSelection{Namespace: "bank"}, Limit: 9}, []uint64{6}, 0},
		"a Subscription":            {DeadLetterQuery{DeadLetterSelection: selectionOf(orders, ""), Limit: 4}, []uint64{1, 2, 3, 7}, 7},
		"a reason":                  {DeadLetterQuery{DeadLetterSelection: DeadLetterSelection{Reason: reasonExhausted}, Limit: 9}, []uint64{4, 5, 7, 8}, 0},
		"a reason of one":           {DeadLetterQuery{DeadLetterSelection: selectionOf(orders, reasonExhausted), Limit: 1}, []uint64{7}, 7},
		"one":                       {DeadLetterQuery{DeadLetterSelection: DeadLetterSelection{Sequence: 5}, Limit: 9}, []uint64{5}, 0},
		"one of another namespace":  {DeadLetterQuery{DeadLetterSelection: DeadLetterSelection{Namespace: "bank", Sequence: 5}, Limit: 9}, nil, 0},
		"after the last":            {DeadLetterQuery{Limit: 3, After: 8}, nil, 0},
		"after everything":          {DeadLetterQuery{Limit: 3, After: 1<<64 - 1}, nil, 0},
		"a Subscription of no name": {DeadLetterQuery{DeadLetterSelection: DeadLetterSelection{Namespace: "shop", Subscription: "parcels"}, Limit: 3}, nil, 0},
	} {
		page, err := conn.ListDeadLetters(t.Context(), tc.query)
		require.NoError(t, err, name)
		var got []uint64
		for _, deadLetter := range page.DeadLetters {
			require.Empty(t, deadLetter.Body, name)
			got = append(got, deadLetter.Sequence)
		}
		require.Equal(t, tc.want, got, name)
		require.Equal(t, tc.next, page.Next, name)
	}
	_, err := conn.DeadLetter(t.Context(), 9)
	require.ErrorIs(t, err, ErrDeadLetterNotFound)
	_, err = conn.DeadLetter(t.Context(), 0)
	require.ErrorIs(t, err, ErrDeadLetterNotFound)
	require.Equal(t, map[types.NamespacedName]uint64{orders: 5, parcels: 2, ledgers: 1}, counts(t, conn), "reading deleted dead letters")
	require.Zero(t, streamInfo(t, conn, DeadLetterStream).State.Consumers, "reading left a consumer behind")
}

// A list is in memory as a whole, and texts of dead letters are as long as their authors like.
func TestAPageOfDeadLettersIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	_, conn := startWithConsumers(t, orders)
	const deadLetters, idSize = 40, 64 << 10
	for i := range deadLetters {
		body := []byte(`{"specversion":"1.0","id":"` + strings.Repeat("x", idSize) + `"}`)
		require.NoError(t, conn.AddDeadLetter(t.Context(), DeadLetter{Subscription: orders, Reason: reasonRefused}, given(conn, uint64(i+1), body)))
	}
	listed := 0
	for query := (DeadLetterQuery{Limit: deadLetters}); ; {
		page, err := conn.ListDeadLetters(t.Context(), query)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.DeadLetters), maxPageBytes/idSize)
		listed += len(page.DeadLetters)
		if query.After = page.Next; page.Next == 0 {
			break
		}
	}
	require.Equal(t, deadLetters, listed)
}

func TestAListOfFewDeadLettersAmongManyComesInPages(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	addDeadLetters(t, conn, orders, reasonRefused, 1, maxDeadLettersScanned)
	addDeadLetters(t, conn, orders, reasonExhausted, maxDeadLettersScanned+1, 1)
	query := DeadLetterQuery{DeadLetterSelection: DeadLetterSelection{Reason: reasonExhausted}, Limit: 5}
	first, err := conn.ListDeadLetters(t.Context(), query)
	require.NoError(t, err)
	require.Equal(t, DeadLetterPage{Next: maxDeadLettersScanned}, first)
	query.After = first.Next
	second, err := conn.ListDeadLetters(t.Context(), query)
	require.NoError(t, err)
	require.Len(t, second.DeadLetters, 1)
	require.Zero(t, second.Next)
}

func TestPurgeDeletesWhatIsSelectedAndCounts(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	addDeadLetters(t, conn, orders, reasonRefused, 1, 300)
	addDeadLetters(t, conn, orders, reasonExhausted, 301, 300)
	addDeadLetters(t, conn, parcels, reasonRefused, 1, 2)
	addDeadLetters(t, conn, ledgers, reasonRefused, 1, 4)

	for _, tc := range []struct {
		name      string
		selection DeadLetterSelection
		want      uint64
		err       error
	}{
		{"one of another namespace", DeadLetterSelection{Namespace: "bank", Sequence: 1}, 0, ErrDeadLetterNotFound},
		{"one", DeadLetterSelection{Sequence: 1}, 1, nil},
		{"one that is gone", DeadLetterSelection{Sequence: 1}, 0, ErrDeadLetterNotFound},
		{"a reason of a Subscription", selectionOf(orders, reasonRefused), 299, nil},
		{"a reason that is gone", selectionOf(orders, reasonRefused), 0, nil},
		{"a Subscription", selectionOf(orders, ""), 300, nil},
		{"a namespace", DeadLetterSelection{Namespace: "bank"}, 4, nil},
		{"all", DeadLetterSelection{}, 2, nil},
		{"all again", DeadLetterSelection{}, 0, nil},
	} {
		got, err := conn.Purge(t.Context(), tc.selection)
		require.ErrorIs(t, err, tc.err, tc.name)
		require.Equal(t, tc.want, got, tc.name)
	}
	require.Empty(t, counts(t, conn))
}

func TestReadingDeadLettersEndsWithItsContext(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	addDeadLetters(t, conn, orders, reasonRefused, 1, 1)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := conn.ListDeadLetters(ended, DeadLetterQuery{Limit: 1})
	require.ErrorIs(t, err, context.Canceled)
}

func selectionOf(subscription types.NamespacedName, reason failure.Reason) DeadLetterSelection {
	return DeadLetterSelection{Namespace: subscription.Namespace, Subscription: subscription.Name, Reason: reason}
}

func FuzzADeadLetterRedrivesItsOriginalEvent(f *testing.F) {
	for _, body := range []string{
		string(structuredEvent("1")), `{"specversion":"1.0"}`, `{}`, ``, `[]`, `no event`, `{"specversion":"1.0","rousereason":"mine"}`,
		`{"specversion":null,"a":{"specversion":"1.0"}}`, "\xef\xbb\xbf{}", `{"specversion":"1.0","data":"{"}`,
	} {
		f.Add([]byte(body), "reason", "excerpt", 1, 500)
	}
	f.Add([]byte(`{"specversion":"1.0"}`), "\x00\"\\\u2028\xff", "<>&\r\n{}", -1, 0)
	f.Fuzz(func(t *testing.T, body []byte, reason, excerpt string, attempts, status int) {
		deadLetter := DeadLetter{Subscription: orders, Reason: failure.Reason(reason), BodyExcerpt: excerpt, Attempts: attempts, Status: status}
		before := string(body)
		message := deadLetter.message(given(nil, 1, body), time.Unix(0, 0))
		require.Equal(t, before, string(body), "the event that was given is changed")
		require.Equal(t, json.Valid(body), json.Valid(message.Data), "%q", message.Data)
		require.Equal(t, before, string(unspliced(message.Header, message.Data)))
		if message.Header.Get(HeaderDeadLetterSpliced) == "" {
			require.Equal(t, before, string(message.Data))
		}
	})
}

func FuzzForeignDeadLettersAreRead(f *testing.F) {
	f.Add("rouse.deadletter.a.b", "3", "x", []byte(`{"specversion":"1.0","id":5}`))
	f.Add("rouse.deadletter.a", "-1", "", []byte("{"))
	f.Fuzz(func(_ *testing.T, subject, spliced, attempts string, body []byte) {
		header := nats.Header{HeaderDeadLetterSpliced: {spliced}, HeaderAttempts: {attempts}}
		raw := &jetstream.RawStreamMsg{Subject: subject, Header: header, Data: body, Sequence: 1}
		_ = storedDeadLetterOf(raw)
		_ = redrivingOf(raw)
	})
}

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
