package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/routing"
)

const kymaTimeout = time.Minute

// AddKymaConsumer makes a consumer as Kyma's eventing-manager does for a subject of a Subscription, and the stream with Kyma's settings
// if it is missing. The consumer begins with what is published next.
func (s *Server) AddKymaConsumer(t testing.TB, stream, namespace, subscription, subject string) *PushConsumer {
	t.Helper()
	conn, err := nats.Connect(s.URL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	handle, err := js.Stream(t.Context(), stream)
	if err != nil {
		handle, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: stream, Subjects: []string{"kyma.>"}, Retention: jetstream.InterestPolicy, Discard: jetstream.DiscardNew,
			MaxMsgs: -1, MaxBytes: 700 << 20, MaxMsgsPerSubject: 1_000_000,
		})
	}
	require.NoError(t, err)
	description := namespace + "/" + subscription + "/" + subject
	p := &PushConsumer{conn: conn, stream: handle, name: routing.TypeConsumerName(description), target: nats.NewInbox()}
	_, err = js.CreatePushConsumer(t.Context(), stream, jetstream.ConsumerConfig{
		Durable: p.name, Description: description, FilterSubject: subject, DeliverSubject: p.target, DeliverPolicy: jetstream.DeliverNewPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxDeliver: 100, MaxAckPending: 10,
		FlowControl: true, IdleHeartbeat: time.Minute, ReplayPolicy: jetstream.ReplayInstantPolicy,
	})
	require.NoError(t, err)
	return p
}

// OpenPushConsumer returns a push consumer that somebody else has made.
func (s *Server) OpenPushConsumer(t testing.TB, stream, name string) *PushConsumer {
	t.Helper()
	conn, err := nats.Connect(s.URL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	handle, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	consumer, err := handle.PushConsumer(t.Context(), name)
	require.NoError(t, err)
	return &PushConsumer{conn: conn, stream: handle, name: name, target: consumer.CachedInfo().Config.DeliverSubject}
}

// Settle receives and acknowledges messages, as a running eventing-manager does, and leaves. It returns their data.
func (p *PushConsumer) Settle(t testing.TB, count int) []string {
	t.Helper()
	subscription, err := p.conn.SubscribeSync(p.target)
	require.NoError(t, err)
	var data []string
	for len(data) < count {
		message, err := subscription.NextMsg(kymaTimeout)
		require.NoError(t, err)
		if message.Header.Get("Status") != "" { // flow control and heartbeats
			if message.Reply != "" {
				require.NoError(t, message.Respond(nil))
			}
			continue
		}
		data = append(data, string(message.Data))
		_, err = p.conn.Request(message.Reply, []byte("+ACK"), kymaTimeout)
		require.NoError(t, err)
	}
	require.NoError(t, subscription.Unsubscribe())
	require.Eventually(t, func() bool {
		consumer, err := p.stream.PushConsumer(t.Context(), p.name)
		return err == nil && !consumer.CachedInfo().PushBound
	}, kymaTimeout, 10*time.Millisecond)
	return data
}

// Publisher returns a function that publishes and awaits that the message is stored. It may be called from any goroutine.
func (s *Server) Publisher(t testing.TB) func(subject string, data []byte) error {
	t.Helper()
	conn, err := nats.Connect(s.URL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	ctx := t.Context()
	return func(subject string, data []byte) error {
		_, err := js.Publish(ctx, subject, data)
		return err
	}
}
