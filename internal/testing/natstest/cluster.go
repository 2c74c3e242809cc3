package natstest

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// Cluster is several nats-servers that replicate their streams.
type Cluster struct {
	Servers []*Server
}

// StartCluster runs a JetStream cluster of the given size until the test ends
// and returns when it has elected its leader.
func StartCluster(t testing.TB, size int) *Cluster {
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

// startCluster does not wait: a member is ready only when enough others run.
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
