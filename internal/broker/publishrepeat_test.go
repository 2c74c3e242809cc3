package broker

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

var errInProcess = &jetstream.APIError{Code: 409, ErrorCode: 10158, Description: "duplicate message id is in process"}

// answering is a stream that answers the publishes of an event, by its id, one after the other. Behind the last answer it
// confirms.
type answering struct {
	jetstream.JetStream
	answers map[string][]error
	heard   []string
}

func (a *answering) PublishMsgAsync(m *nats.Msg, _ ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	id := m.Header.Get(headerID)
	a.heard = append(a.heard, id)
	answer := future{ok: make(chan *jetstream.PubAck, 1), failed: make(chan error, 1)}
	if rest := a.answers[id]; len(rest) > 0 {
		a.answers[id] = rest[1:]
		answer.failed <- rest[0]
	} else {
		answer.ok <- &jetstream.PubAck{Stream: testStream, Duplicate: true}
	}
	return answer, nil
}

type future struct {
	jetstream.PubAckFuture
	ok     chan *jetstream.PubAck
	failed chan error
}

func (f future) Ok() <-chan *jetstream.PubAck { return f.ok }
func (f future) Err() <-chan error            { return f.failed }

func TestARepeatWaitsForAnEarlierPublishThatIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers []error
		want    error
		asked   int // at least
	}{
		"which is stored in the end": {[]error{errInProcess, errInProcess}, nil, 3},
		"which was the last that fit": {
			[]error{errInProcess, &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum bytes exceeded"}}, ErrStorageFull, 2,
		},
		"which never ends": {repeated(errInProcess, 1000), ErrInProcess, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stream := &answering{answers: map[string][]error{"A": tc.answers}}
				publisher := &Publisher{js: stream, options: publisherOptions()}
				message, err := encode(eventWithID("A"))
				require.NoError(t, err)
				began := time.Now()
				errs := make([]error, 1)
				publisher.publishMessages(t.Context(), []*nats.Msg{message}, errs)
				if tc.want == nil {
					require.NoError(t, errs[0])
				} else {
					require.ErrorIs(t, errs[0], tc.want)
				}
				require.GreaterOrEqual(t, len(stream.heard), tc.asked)
				require.LessOrEqual(t, time.Since(began), publisher.options.Timeout)
				require.Zero(t, publisher.pending.Load())
			})
		})
	}
}

func TestOnlyEventsInProcessArePublishedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream := &answering{answers: map[string][]error{"2": {errInProcess}, "3": {errInProcess}}}
		publisher := &Publisher{js: stream, options: publisherOptions()}
		var messages []*nats.Msg
		for i := range 4 {
			message, err := encode(eventWithID(strconv.Itoa(i + 1)))
			require.NoError(t, err)
			messages = append(messages, message)
		}
		errs := make([]error, len(messages))
		publisher.publishMessages(t.Context(), messages, errs)
		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Equal(t, []string{"1", "2", "3", "4", "2", "3"}, stream.heard)
	})
}

func TestRepeatsAtTheSameTimeAreAllConfirmedByACluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a cluster takes its time")
	}
	_, conn := startCluster(t)
	publisher := NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.Timeout = testTimeout }))
	const events, repeats = 20, 8
	failed := make(chan error, events*repeats*2)
	for i := range events {
		event := eventWithID(strconv.Itoa(i))
		var all sync.WaitGroup
		for range repeats {
			all.Go(func() {
				for _, err := range publisher.PublishAll(t.Context(), []*cloudevent.Event{event, event}) {
					failed <- err
				}
			})
		}
		all.Wait()
	}
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	awaitBacklog(t, conn, "c1", Backlog{Pending: events})
}

func repeated(err error, times int) []error {
	errs := make([]error, times)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
