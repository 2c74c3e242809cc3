package natstest

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// PushConsumer is a durable push consumer, as Kyma's eventing-manager makes them.
type PushConsumer struct {
	conn         *nats.Conn
	stream       jetstream.Stream
	name, target string
}

// AddPushConsumer makes a consumer of the stream for its subject kyma.a.b, and the stream with Kyma's subjects if there is none.
func (s *Server) AddPushConsumer(t testing.TB, stream, name, description string) *PushConsumer {
	t.Helper()
	conn, err := nats.Connect(s.URL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	handle, err := js.Stream(t.Context(), stream)
	if err != nil {
		handle, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: stream, Subjects: []string{"kyma.>"}, Retention: jetstream.InterestPolicy,
		})
	}
	require.NoError(t, err)
	p := &PushConsumer{conn: conn, stream: handle, name: name, target: nats.NewInbox()}
	_, err = js.CreatePushConsumer(t.Context(), stream, jetstream.ConsumerConfig{
		Durable: name, Description: description, FilterSubject: "kyma.a.b", DeliverSubject: p.target, AckPolicy: jetstream.AckExplicitPolicy,
	})
	require.NoError(t, err)
	return p
}

// Bind receives on the consumer until the end of the test.
func (p *PushConsumer) Bind(t testing.TB) {
	t.Helper()
	_, err := p.conn.SubscribeSync(p.target)
	require.NoError(t, err)
	require.NoError(t, p.conn.Flush())
}

// Delete deletes it.
func (p *PushConsumer) Delete(t testing.TB) {
	t.Helper()
	require.NoError(t, p.stream.DeleteConsumer(t.Context(), p.name))
}

// StreamLimit is how many bytes its stream may hold.
func (p *PushConsumer) StreamLimit(t testing.TB) int64 {
	t.Helper()
	info, err := p.stream.Info(t.Context())
	require.NoError(t, err)
	return info.Config.MaxBytes
}
