package dev

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rouse-run/rouse/dev/autoscale"
	"github.com/rouse-run/rouse/eventbridge"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/eventbridge/replica"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/scaler"
)

// hiddenBuffer is that of connections inside the process.
const hiddenBuffer = 64 << 10

// buildBridge makes the eventbridge that a cluster runs. What it does not finish in a moment when it is asked to stop
// comes again after the next start.
func (m *mode) buildBridge() {
	o := replica.DefaultOptions()
	o.Bridge.ShutdownDelay, o.Bridge.DrainTimeout = 0, stopTimeout
	o.Bridge.Dispatch.DrainTimeout = stopTimeout
	o.Publisher.Stream = m.streams.Name
	m.store = jetstream.NewAdminStore(m.conn, m.streams.Name, m.journal)
	m.bridge = replica.New(m.conn, eventbridge.Deps{
		Routes:        m.subs,
		Subscriptions: m.subs,
		Endpoints:     m.functions,
		Admin:         m.store,
		AdminAccess:   identity.Token(m.token),
		Journal:       m.journal,
		Destination:   m.nats,
		Registry:      daemon.NewRegistry(),
		Log:           m.log.WithName("eventbridge"),
		Listener:      m.public, MetricsListener: m.metrics, AdminListener: m.admin,
	}, o)
}

// buildScaling makes the scaler that a cluster runs, and the client that asks it as KEDA does. It reads backlogs more
// often than in a cluster, since there are few and a user watches.
func (m *mode) buildScaling() error {
	o := scaler.DefaultOptions()
	o.Stream = m.streams.Name
	o.DrainDelay, o.DrainTimeout = 0, stopTimeout
	o.Refresh.ActiveInterval, o.Refresh.IdleInterval = 250*time.Millisecond, time.Second
	o.Push.Heartbeat = time.Second // below any cooldown that makes sense
	m.scaler = scaler.New(scaler.Deps{
		Routes: m.subs, Endpoints: m.functions, Backlogs: m.conn, Listener: m.conn, Connection: m.conn,
		Registry: daemon.NewRegistry(), Log: m.log.WithName("scaler"),
	}, o)
	conn, err := grpc.NewClient("passthrough:///scaler", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return m.hidden.DialContext(ctx) }))
	if err != nil {
		return fmt.Errorf("reach the scaler: %w", err)
	}
	m.scalerConn = conn
	options := autoscale.DefaultOptions()
	options.Cooldown = m.options.Cooldown
	m.scaling = autoscale.New(conn, m.functions.Scale, options, m.log.WithName("autoscale"))
	return nil
}
