package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestOnDeletedReportsStreamsAndConsumers(t *testing.T) {
	t.Parallel()
	server, conn := start(t)
	notified := make(chan [2]string, 100)
	stop, err := conn.OnDeleted([]string{testStream, RetryStream}, func(stream, consumer string) { notified <- [2]string{stream, consumer} })
	require.NoError(t, err)
	defer stop()
	other := connect(t, server.URL())
	awaitConnected(t, other)
	for _, name := range []string{"c1", "c2"} {
		ensureConsumer(t, conn, Consumer{Name: name, Subjects: []string{"kyma." + name}})
	}
	require.NoError(t, other.DeleteConsumer(t.Context(), testStream, "c1"))
	require.Equal(t, [2]string{testStream, "c1"}, await(t, notified))
	require.NoError(t, other.DeleteConsumer(t.Context(), RetryStream, retryConsumer))
	require.Equal(t, [2]string{RetryStream, retryConsumer}, await(t, notified))
	require.NoError(t, other.js.DeleteStream(t.Context(), DeadLetterStream))
	require.Eventually(t, func() bool { // the server may stop before it has sent the advisory of a stream
		_ = other.EnsureStreams(t.Context(), testStreams())
		_ = other.js.DeleteStream(t.Context(), testStream)
		for {
			select {
			case what := <-notified:
				require.Equal(t, testStream, what[0])
				if what[1] == "" {
					return true
				}
			case <-time.After(time.Second):
				return false
			}
		}
	}, testTimeout, moment)
	stop()
	require.NoError(t, other.js.DeleteStream(t.Context(), RetryStream))
}

func TestANewStreamTakesNoEventBeforeItsConsumersAreThere(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	require.NoError(t, conn.js.DeleteStream(t.Context(), testStream))
	publisher := NewPublisher(conn, publisherOptions())
	consumers := []Consumer{
		{Name: "c1", Subjects: []string{testSubject}}, {Name: "refused", Subjects: []string{"kyma.shop.*", "kyma.shop.order"}},
	}
	gone := errors.New("the Subscriptions are not known")
	interested := func(context.Context) ([]Consumer, error) {
		require.ErrorIs(t, publisher.Publish(t.Context(), eventWithID("early")), ErrNoStream)
		return nil, gone
	}
	for range 2 {
		require.ErrorIs(t, conn.EnsureStreamsFor(t.Context(), testStreams(), interested), gone)
		require.ErrorIs(t, publisher.Publish(t.Context(), eventWithID("early")), ErrNoStream)
	}
	known := func(context.Context) ([]Consumer, error) { return consumers, nil }
	require.NoError(t, conn.EnsureStreamsFor(t.Context(), testStreams(), known))
	require.NoError(t, publisher.Publish(t.Context(), eventWithID("early")))
	awaitBacklog(t, conn, "c1", Backlog{Pending: 1})

	require.NoError(t, conn.EnsureStreamsFor(t.Context(), testStreams(), func(context.Context) ([]Consumer, error) {
		require.Fail(t, "a stream that takes events is not closed")
		return nil, nil
	}))
	require.Equal(t, eventStream(testStreams()).Subjects, streamInfo(t, conn, testStream).Config.Subjects)
}

func TestAllConsumersOfTheRetriesAreOfTheirStream(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	consumers, err := conn.Consumers(t.Context(), RetryStream)
	require.NoError(t, err)
	require.Len(t, consumers, int(lastRetryLevel)+2)
	for _, consumer := range consumers {
		require.True(t, IsInternalConsumer(consumer.Name), consumer.Name)
	}
	require.False(t, IsInternalConsumer(routing.ConsumerName("shop", retryConsumer)))
}

func TestAStreamThatIsDeletedWhileItIsPreparedIsNotOpenedWithoutItsConsumers(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	deleting := func(ctx context.Context) ([]Consumer, error) {
		return nil, conn.js.DeleteStream(ctx, testStream)
	}
	require.ErrorIs(t, conn.EnsureStreamsFor(t.Context(), testStreams(), deleting), ErrBeingDeleted)
	_, err := conn.js.Stream(t.Context(), testStream)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}

// restore makes a consumer again whenever one is deleted, until the test ends, and reports when it is there.
func restore(t *testing.T, conn *Conn, consumer Consumer) <-chan struct{} {
	t.Helper()
	deletions, restored := make(chan struct{}, 100), make(chan struct{}, 100)
	stop, err := conn.OnDeleted([]string{testStream}, func(_, name string) {
		if name == consumer.Name {
			deletions <- struct{}{}
		}
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-deletions:
			}
			for ctx.Err() == nil && conn.EnsureConsumer(ctx, testStream, consumer) != nil {
				time.Sleep(moment)
			}
			restored <- struct{}{}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; stop() })
	return restored
}

func TestARecreatedConsumerSurvivesAServerRestart(t *testing.T) {
	t.Parallel()
	server, conn := start(t)
	other := connect(t, server.URL())
	awaitConnected(t, other)
	consumer := Consumer{Name: "c1", Subjects: []string{testSubject}}
	ensureConsumer(t, conn, consumer)
	restored := restore(t, conn, consumer)
	for round := range 5 {
		for range 2000 { // they take the server a while
			_, err := conn.js.PublishAsync(testSubject, []byte("x"))
			require.NoError(t, err)
		}
		<-conn.js.PublishAsyncComplete()
		require.NoError(t, other.DeleteConsumer(t.Context(), testStream, "c1"))
		standby := StandbyName(consumer.Name)
		require.Eventually(t, func() bool {
			_, err := conn.Backlog(t.Context(), testStream, standby)
			return err == nil
		}, testTimeout, time.Millisecond, "something takes its events")
		require.NoError(t, NewPublisher(conn, publisherOptions()).Publish(t.Context(), eventWithID(strconv.Itoa(round))))
		await(t, restored)
		awaitBacklog(t, conn, "c1", Backlog{Pending: 1})
		_, err := conn.Backlog(t.Context(), testStream, standby)
		require.ErrorIs(t, err, ErrConsumerNotFound)
		server.Restart()
		awaitConnected(t, conn)
		awaitConnected(t, other)
		awaitBacklog(t, conn, "c1", Backlog{Pending: 1})
	}
}

func TestAConsumerWithoutFilesIsRecreatedAndLosesNothing(t *testing.T) {
	t.Parallel()
	server, conn := start(t)
	consumer := Consumer{Name: "c1", Subjects: []string{testSubject}}
	marked := consumer
	marked.Metadata = map[string]string{metadataRecreated: "true"}
	ensureConsumer(t, conn, marked)
	publisher := NewPublisher(conn, publisherOptions())
	for id := range 3 {
		require.NoError(t, publisher.Publish(t.Context(), eventWithID(strconv.Itoa(id))))
	}
	server.RemoveConsumerFiles(t, testStream, "c1")
	info, err := conn.consumerInfo(t.Context(), testStream, "c1")
	require.NoError(t, err)
	require.NoError(t, conn.confirm(t.Context(), testStream, consumer, info))
	awaitBacklog(t, conn, "c1", Backlog{Pending: 3})
	server.Restart()
	awaitConnected(t, conn)
	awaitBacklog(t, conn, "c1", Backlog{Pending: 3})
	info, err = conn.consumerInfo(t.Context(), testStream, "c1")
	require.NoError(t, err)
	require.True(t, consumer.matches(info.Config))
}

func TestARecreatedConsumerIsConfirmedOnceItIsOldEnough(t *testing.T) {
	t.Parallel()
	created := time.Now()
	for name, c := range map[string]struct {
		metadata    map[string]string
		age         time.Duration
		marked, due bool
	}{
		"it was never deleted":     {nil, time.Hour, false, false},
		"it may lose its files":    {map[string]string{metadataRecreated: "true"}, time.Second, true, false},
		"it has what it will have": {map[string]string{metadataRecreated: "true"}, time.Minute, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			marked, due := unconfirmed(&jetstream.ConsumerInfo{
				Config: jetstream.ConsumerConfig{Metadata: c.metadata}, Created: created, TimeStamp: created.Add(c.age),
			})
			require.Equal(t, []bool{c.marked, c.due}, []bool{marked, due})
		})
	}
}

func TestAStreamIsRecreatedAfterTheServerHasFinishedItsDeletion(t *testing.T) {
	t.Parallel()
	server, conn := start(t)
	stop, err := conn.OnDeleted([]string{testStream, RetryStream, DeadLetterStream}, func(string, string) {})
	require.NoError(t, err)
	defer stop()
	publisher := NewPublisher(conn, publisherOptions())
	for round := range 5 {
		ensureConsumer(t, conn, Consumer{Name: "c" + strconv.Itoa(round), Subjects: []string{testSubject}})
		for id := range 100 {
			require.NoError(t, publisher.Publish(t.Context(), eventWithID(fmt.Sprint(round, "/", id))))
		}
		var deletion sync.WaitGroup
		deletion.Go(func() { server.DeleteStream(t, testStream) })
		require.Eventually(t, func() bool {
			if conn.EnsureStreams(t.Context(), testStreams()) != nil {
				return false
			}
			stream, err := conn.js.Stream(t.Context(), testStream)
			return err == nil && stream.CachedInfo().State.LastSeq == 0
		}, testTimeout, time.Millisecond)
		deletion.Wait()
		require.NoError(t, publisher.Publish(t.Context(), eventWithID(fmt.Sprint(round, "/again"))), "it works")
	}
}

func TestOurOwnDeletionsAreFinishedWhenTheyAreAnswered(t *testing.T) {
	t.Parallel()
	d := newDeletions()
	d.expect(deleted{testStream, "ours"})
	d.observe(deleted{testStream, "ours"})
	d.observe(deleted{testStream, "theirs"})
	require.False(t, d.unfinished(testStream, "ours"))
	require.True(t, d.unfinished(testStream, "theirs"))
	require.True(t, d.unfinishedOf(testStream))
	require.False(t, d.unfinishedOf(RetryStream))
	d.recordCreation(testStream, streamCreation{began: time.Now()})
	require.False(t, d.recentlyDeleted(testStream, "theirs"))
}

func TestAStreamCreatedBeforeItsDeletionAdvisoryIsRecreated(t *testing.T) {
	t.Parallel()
	server, conn := start(t)
	ensure := func() error { return conn.EnsureStreams(t.Context(), testStreams()) }
	first := streamInfo(t, conn, testStream).Created
	conn.deletions.observe(deleted{stream: testStream})
	require.ErrorIs(t, ensure(), ErrBeingDeleted)
	require.Eventually(t, func() bool { return ensure() == nil }, testTimeout, moment)
	second := streamInfo(t, conn, testStream).Created
	require.True(t, second.After(first))

	server.DeleteStream(t, testStream)
	other := connect(t, server.URL())
	awaitConnected(t, other)
	require.NoError(t, other.EnsureStreams(t.Context(), testStreams()))
	third := streamInfo(t, conn, testStream).Created
	conn.deletions.observe(deleted{stream: testStream})
	require.NoError(t, ensure(), "it was made by another client")
	require.Equal(t, third, streamInfo(t, conn, testStream).Created)
}
