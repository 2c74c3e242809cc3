package natstest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

const startTimeout = 30 * time.Second

// Option changes the configuration of a server before it starts.
type Option func(*server.Options)

// WithMaxStore limits the bytes that the server's streams may reserve on disk.
func WithMaxStore(bytes int64) Option {
	return func(o *server.Options) { o.JetStreamMaxStore = bytes }
}

// WithMaxPayload limits the size of a message.
func WithMaxPayload(bytes int32) Option {
	return func(o *server.Options) { o.MaxPayload = bytes }
}

// WithMaxConsumers sets the default limit of consumers per stream.
func WithMaxConsumers(n int) Option {
	return func(o *server.Options) { o.JetStreamLimits.DefaultMaxConsumers = n }
}

// WithoutJetStream starts a server that has no streams at all.
func WithoutJetStream() Option {
	return func(o *server.Options) { o.JetStream = false }
}

// WithUser makes the server require a user and a password.
func WithUser(name, password string) Option {
	return func(o *server.Options) { o.Username, o.Password = name, password }
}

// WithSync syncs each message, or each batch, to the disk before it is confirmed, as the chart's server does.
func WithSync() Option {
	return func(o *server.Options) { o.SyncAlways = true }
}

// Server is a nats-server of a test.
type Server struct {
	t       testing.TB
	options server.Options
	running *server.Server
}

// Start runs a server until the test ends.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := &Server{t: t, options: server.Options{
		Host:      loopback.Host,
		Port:      loopback.Reserve(t),
		JetStream: true,
		StoreDir:  t.TempDir(),
		NoLog:     true,
		NoSigs:    true,
	}}
	for _, change := range options {
		change(&s.options)
	}
	s.Run()
	t.Cleanup(s.Stop)
	return s
}

// URL returns the URL for clients; it does not change during the test.
func (s *Server) URL() string {
	return "nats://" + net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
}

// Run starts the server again after Stop.
func (s *Server) Run() {
	s.t.Helper()
	options := s.options
	running, err := server.NewServer(&options)
	require.NoError(s.t, err, "configure nats-server")
	running.Start()
	s.running = running
	require.True(s.t, running.ReadyForConnections(startTimeout), "nats-server is not ready on %s", s.URL())
}

// Stop stops the server and waits for its end. It may be called twice.
func (s *Server) Stop() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

// Restart stops the server and starts it on the same port with the same store.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Run()
}

// Change stops the server and starts it with other options on the same port with the same store.
func (s *Server) Change(options ...Option) {
	s.t.Helper()
	s.Stop()
	for _, change := range options {
		change(&s.options)
	}
	s.Run()
}

// SyncInterval returns the sync_interval of a server with this configuration: "always", or a duration.
func SyncInterval(t testing.TB, config string) string {
	t.Helper()
	parsed := &server.Options{}
	require.NoError(t, parsed.ProcessConfigString(config), "parse the server's configuration")
	if parsed.SyncAlways {
		return "always"
	}
	return parsed.SyncInterval.String()
}

// Cluster is a cluster of nats-servers that replicate their streams.
type Cluster struct {
	Servers []*Server
}

// StartCluster runs a JetStream cluster of the given size until the test ends. It returns once the cluster has elected
// its leader.
func StartCluster(t testing.TB, size int, options ...Option) *Cluster {
	t.Helper()
	routePorts := make([]int, size)
	routes := make([]*url.URL, size)
	for i := range size {
		routePorts[i] = loopback.Reserve(t)
		routes[i] = &url.URL{Scheme: "nats-route", Host: net.JoinHostPort(loopback.Host, strconv.Itoa(routePorts[i]))}
	}
	cluster := &Cluster{}
	for i := range size {
		s := &Server{t: t, options: server.Options{
			ServerName: fmt.Sprintf("node-%d", i),
			Host:       loopback.Host,
			Port:       loopback.Reserve(t),
			JetStream:  true,
			StoreDir:   t.TempDir(),
			NoLog:      true,
			NoSigs:     true,
			Cluster:    server.ClusterOpts{Name: "test", Host: loopback.Host, Port: routePorts[i]},
			Routes:     routes,
		}}
		for _, change := range options {
			change(&s.options)
		}
		s.startCluster()
		cluster.Servers = append(cluster.Servers, s)
		t.Cleanup(s.Stop)
	}
	cluster.waitReady(t)
	return cluster
}

// URL lists all servers of the cluster.
func (c *Cluster) URL() string {
	urls := make([]string, 0, len(c.Servers))
	for _, s := range c.Servers {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, ",")
}

// startCluster does not wait: a member becomes ready only when enough others run.
func (s *Server) startCluster() {
	s.t.Helper()
	options := s.options
	running, err := server.NewServer(&options)
	require.NoError(s.t, err, "configure nats-server")
	running.Start()
	s.running = running
}

func (c *Cluster) waitReady(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool {
		leaders := 0
		for _, s := range c.Servers {
			if !s.running.ReadyForConnections(time.Second) || !s.running.JetStreamIsCurrent() {
				return false
			}
			if s.running.JetStreamIsLeader() {
				leaders++
			}
		}
		return leaders == 1
	}, startTimeout, 50*time.Millisecond, "the cluster elects no leader")
}

// Publish publishes unchanged bytes, as a foreign client would, and returns when the stream has stored them.
func (s *Server) Publish(t testing.TB, subject string, data []byte) {
	t.Helper()
	client, err := nats.Connect(s.URL())
	require.NoError(t, err)
	defer client.Close()
	js, err := jetstream.New(client)
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), subject, data)
	require.NoError(t, err)
}

// DeleteStream deletes a stream with its consumers, as an administrator would by mistake.
func (s *Server) DeleteStream(t testing.TB, name string) {
	t.Helper()
	client, err := nats.Connect(s.URL())
	require.NoError(t, err)
	defer client.Close()
	js, err := jetstream.New(client)
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), name))
}

// RemoveConsumerFiles deletes the files of a consumer. The consumer keeps working until the server is restarted.
func (s *Server) RemoveConsumerFiles(t testing.TB, stream, consumer string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.options.StoreDir, "jetstream", "*", "streams", stream, "obs", consumer))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, os.RemoveAll(found[0]))
}

// PushConsumer is a durable push consumer, as Kyma's eventing-manager makes them.
type PushConsumer struct {
	conn         *nats.Conn
	stream       jetstream.Stream
	name, target string
}

// AddPushConsumer makes a consumer of the stream for its subject kyma.a.b, and the stream with Kyma's subjects if it is
// missing.
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

// Bind receives messages of the consumer until the end of the test.
func (p *PushConsumer) Bind(t testing.TB) {
	t.Helper()
	_, err := p.conn.SubscribeSync(p.target)
	require.NoError(t, err)
	require.NoError(t, p.conn.Flush())
}

// Delete deletes the consumer.
func (p *PushConsumer) Delete(t testing.TB) {
	t.Helper()
	require.NoError(t, p.stream.DeleteConsumer(t.Context(), p.name))
}

// StreamLimit returns the byte limit of the consumer's stream.
func (p *PushConsumer) StreamLimit(t testing.TB) int64 {
	t.Helper()
	info, err := p.stream.Info(t.Context())
	require.NoError(t, err)
	return info.Config.MaxBytes
}
