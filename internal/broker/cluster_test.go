package broker

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// One server after the other, and with them each leader, goes away while events
// are published and fetched. Nothing that was confirmed is lost.
func TestAClusterLosesNothingWhenItsServersRestart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a cluster takes its time")
	}
	cluster, conn := startCluster(t)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen := collect(ctx, t, newSource(conn))
	publisher := NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.Timeout = time.Second }))
	confirmed := 0
	publishUntil := func(enough int) {
		for deadline := time.Now().Add(3 * testTimeout); confirmed < enough && time.Now().Before(deadline); {
			if publisher.Publish(ctx, eventWithID(strconv.Itoa(confirmed))) == nil {
				confirmed++
			}
		}
		require.Equal(t, enough, confirmed, "the cluster stores no more")
	}
	publishUntil(100)
	for i, server := range cluster.Servers {
		server.Stop()
		publishUntil(i*200 + 200)
		server.Run()
		publishUntil(i*200 + 300)
	}
	require.Eventually(t, func() bool {
		return len(seen()) == confirmed
	}, 3*testTimeout, 10*moment)
	require.Eventually(t, func() bool {
		backlog, err := conn.Backlog(t.Context(), testStream, "c1")
		return err == nil && backlog.Total() == 0
	}, 3*testTimeout, 10*moment)
}

// startCluster is a cluster of three with its streams and the consumer c1, and a connection to it.
func startCluster(t *testing.T) (*natstest.Cluster, *Conn) {
	t.Helper()
	cluster := natstest.StartCluster(t, 3)
	conn := connect(t, cluster.URL())
	awaitConnected(t, conn)
	options := testStreams()
	options.Replicas = 3
	require.Eventually(t, func() bool { return conn.EnsureStreams(t.Context(), options) == nil }, testTimeout, 100*moment)
	consumer := Consumer{Name: "c1", Subjects: []string{testSubject}, AckWait: 2 * time.Second}
	require.Eventually(t, func() bool { return conn.EnsureConsumer(t.Context(), testStream, consumer) == nil }, testTimeout, 100*moment)
	require.Eventually(t, func() bool { return isReplicated(t, conn) }, testTimeout, 100*moment)
	return cluster, conn
}

// isReplicated says whether the consumer has a leader that all its replicas follow.
func isReplicated(t *testing.T, conn *Conn) bool {
	t.Helper()
	handle, err := conn.js.Consumer(t.Context(), testStream, "c1")
	if err != nil {
		return false
	}
	cluster := handle.CachedInfo().Cluster
	return cluster != nil && cluster.Leader != "" && len(cluster.Replicas) == 2 &&
		!slices.ContainsFunc(cluster.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current })
}
