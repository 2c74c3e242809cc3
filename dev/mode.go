package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/apimachinery/pkg/types"

	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/dev/autoscale"
	"github.com/rouse-run/rouse/dev/expect"
	"github.com/rouse-run/rouse/dev/instance"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/dev/toolchain"
	"github.com/rouse-run/rouse/eventbridge"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/eventbridge/replica"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/eventschema"
	"github.com/rouse-run/rouse/scaler"
)

const (
	// feedLines bounds the log lines of each Function, journalRecords the records of all events.
	feedLines      = 5000
	journalRecords = 20_000
	publishPath    = "/publish"
	// openTimeout bounds how long a local mode waits for its streams before other commands can find it.
	openTimeout = 30 * time.Second
)

// mode is one local mode and its parts.
type mode struct {
	options   Options
	claim     *instance.Claim
	state     string // folder
	token     string
	nats      string // URL
	streams   broker.StreamOptions
	events    []cloudevent.Event
	expected  *expect.File // nil without --expect
	emissions *emissions   // with --once
	recent    recentEvents
	log       logr.Logger
	started   time.Time
	kept      string // printed at the end

	feed        *process.Feed
	journal     *journal.Journal
	conn        *broker.Conn
	supervisor  *process.Supervisor
	functions   *runner.Functions
	apiRules    *APIRules
	scaling     *autoscale.Autoscaler
	subs        *subscriptionWorkers
	schedules   *listed[*rousev1alpha1.Schedule]
	schemas     *eventschema.Current
	doors       *listed[door.Known]
	bridge      *eventbridge.Bridge
	store       *jetstream.AdminStore
	scaler      *scaler.Scaler
	scalerConn  *grpc.ClientConn
	deadLetters *deadLetters
	source      *source
	folder      *folder

	public, admin, control net.Listener
	dashboard              net.Listener      // nil with --once
	outside                net.Listener      // of APIRules
	outsideMoved           bool              // to another port than the usual one
	firstPort              int               // of Functions
	hidden                 *bufconn.Listener // of the scaler
	metrics                *bufconn.Listener // never connected to
}

func newFeed() *process.Feed { return process.NewFeed(feedLines) }

// logLine adds a message of local mode to the feed.
func (m *mode) logLine(text string) { m.feed.Add(process.Line{Stream: process.Rouse, Text: text}) }

func (m *mode) logFunctionLine(fn types.NamespacedName, text string) {
	m.feed.Add(process.Line{Namespace: fn.Namespace, Function: fn.Name, Stream: process.Rouse, Text: text})
}

// run builds the parts and runs them. Those that others depend on stop last.
func (m *mode) run(ctx context.Context) error {
	m.started = time.Now()
	if err := m.open(ctx); err != nil {
		return err
	}
	defer m.close()
	if err := m.build(ctx); err != nil {
		return err
	}
	err := daemon.RunOn(ctx, m.work, m.functions.Run, m.holdConnection)
	return errors.Join(err, m.printKept(ctx))
}

// open opens the ports, the connection to NATS and the supervisor.
func (m *mode) open(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	moved := false
	if m.public, moved, err = listenAt(ctx, flagPort, m.options.Port, defaultPort); err != nil {
		return err
	}
	m.firstPort = portOf(m.public) + 1
	if moved {
		m.firstPort = defaultPort + 1 // a random port would change with each start
		m.logLine(fmt.Sprintf("port %d is taken, so events are published to port %d; choose one with --port", defaultPort, portOf(m.public)))
	}
	if m.outside, m.outsideMoved, err = listenAt(ctx, flagAPIRulesPort, m.options.APIRulesPort, defaultAPIRulesPort); err != nil {
		return err
	}
	if m.admin, err = listen(ctx, 0); err != nil {
		return fmt.Errorf("take a port for the admin API: %w", err)
	}
	if m.control, err = listen(ctx, 0); err != nil {
		return fmt.Errorf("take a port for the control API: %w", err)
	}
	if err = m.openDashboard(ctx); err != nil {
		return err
	}
	m.hidden, m.metrics = bufconn.Listen(hiddenBuffer), bufconn.Listen(hiddenBuffer)
	m.conn, err = broker.Connect(ctx, broker.Options{
		URL: m.nats, Name: natsName, TokenFile: filepath.Join(m.state, tokenFile),
	}, m.log.WithName("broker"))
	if err != nil {
		return err
	}
	if m.supervisor, err = process.New(); err != nil {
		return fmt.Errorf("prepare to start Functions: %w", err)
	}
	return nil
}

// close releases what open opened. Listeners that were served are closed already.
func (m *mode) close() {
	for _, listener := range []net.Listener{m.public, m.admin, m.control, m.outside, m.dashboard} {
		if listener != nil {
			_ = listener.Close() // its server may have done so
		}
	}
	if m.scalerConn != nil {
		_ = m.scalerConn.Close() // no client is left
	}
	if m.supervisor != nil {
		if err := m.supervisor.Close(); err != nil {
			m.log.Info("cannot end all processes", "reason", err.Error())
		}
	}
}

// holdConnection closes the connection to NATS shortly after everything else.
func (m *mode) holdConnection(ctx context.Context) error {
	<-ctx.Done()
	m.countKept(ctx)
	return stop(ctx, m.log, m.conn.Close)
}

func (m *mode) build(ctx context.Context) error {
	m.journal = journal.New(journalRecords)
	m.subs = newSubscriptions(m.conn, m.streams, m.reportSubscription, m.log.WithName("subscriptions"))
	m.conn.OnConnect(m.subs.Check)
	m.schemas = &eventschema.Current{}
	m.schedules, m.doors = newListed[*rousev1alpha1.Schedule](), newListed[door.Known]()
	debug := newDebugged(m.options.Debug)
	m.functions = runner.New(runner.Deps{
		Launcher: toolchain.New(toolchain.Options{
			Cache: m.options.Cache, Programs: m.options.Programs, Progress: m.logFunctionLine,
			Doing: func(fn types.NamespacedName, text string) { m.functions.Doing(fn, text) },
			Guard: m.supervisor.Guard,
		}),
		Supervisor: m.supervisor, Feed: m.feed, Waker: m, Log: m.log.WithName("functions"),
	}, runner.Options{
		FirstPort:        m.firstPort,
		Ports:            filepath.Join(m.state, portsFile),
		PublisherAddress: urlOf(m.public) + publishPath,
		State:            m.state,
		Debug:            debug.has,
	})
	if err := m.buildScaling(); err != nil {
		return err
	}
	m.buildBridge()
	m.apiRules = newAPIRules(apiRulesDeps{
		Listener: m.outside, Serve: m.functions.Serve, Doors: m.bridge.DoorHandler(), Log: m.log.WithName("apirules"),
	})
	m.deadLetters = newDeadLetters(m.conn.DeadLetterCounts)
	m.source = &source{
		directory: m.options.Directory, publish: urlOf(m.public) + publishPath, admin: urlOf(m.admin), dashboard: m.dashboardURL(),
		functions: m.functions, apiRules: m.apiRules, scaling: m.scaling, subs: m.subs, deadLetters: m.deadLetters, journal: m.journal, feed: m.feed,
		publisher: newPublisher(urlOf(m.public) + publishPath), events: m.events, changed: make(chan struct{}),
	}
	m.folder = &folder{
		directory: m.claim.Directory(), shown: m.options.Directory, reader: manifest.NewReader(), functions: m.functions, subs: m.subs, began: time.Now(), schedules: m.schedules, doors: m.doors, schemas: m.schemas,
		apiRules: m.apiRules, scaling: m.scaling, debug: debug, source: m.source, logLine: m.logLine, changed: make(chan struct{}, 1),
	}
	// The folder is read before anything runs, so that an unreadable folder fails the start.
	if err := m.folder.read(ctx); err != nil {
		return err
	}
	if m.outsideMoved && len(m.apiRules.Status()) > 0 {
		m.logLine(fmt.Sprintf("port %d is taken, so APIRules are served at port %d; choose one with %s",
			defaultAPIRulesPort, portOf(m.outside), flagAPIRulesPort))
	}
	return nil
}

// Hold implements runner.Waker.
func (m *mode) Hold(fn types.NamespacedName) func() { return m.scaling.Hold(fn) }

func (m *mode) reportSubscription(name types.NamespacedName, err error) {
	switch {
	case name == types.NamespacedName{} && err != nil:
		m.logLine("events cannot be stored: " + err.Error())
	case err != nil:
		m.logLine(fmt.Sprintf("Subscription %s is not served: %s", name, err))
	}
}

// work runs everything that depends on NATS and the Functions. When one part ends, all do.
func (m *mode) work(ctx context.Context) error {
	return together(ctx,
		m.bridge.Run,
		func(ctx context.Context) error { return m.scaler.Serve(ctx, m.hidden) },
		m.scaling.Run,
		m.subs.Run,
		m.apiRules.Run,
		m.folder.watch,
		m.serveControl,
		m.serveDashboard,
		m.openBrowser,
		m.deadLetters.run,
		m.remember,
		m.announce,
		m.show,
	)
}

// together runs parts until one of them ends, then stops the others and waits for them.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group errgroup.Group
	for _, part := range parts {
		group.Go(func() error {
			defer cancel()
			err := part(ctx)
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return nil // ctx ended
			}
			return err
		})
	}
	return group.Wait()
}

func (m *mode) serveControl(ctx context.Context) error {
	handler := NewControl(ControlDeps{
		Functions: m.functions, Exposures: m.apiRules, Subscriptions: m.subs, Scaling: m.scaling, Lines: m.feed, Recent: &m.recent, Token: m.token,
	})
	return daemon.Serve(ctx, daemon.Server{
		Name: "control", Listener: m.control, Handler: daemon.CancelHandler(ctx, handler), DrainTimeout: stopTimeout,
	}, m.log)
}

// announce publishes the addresses of the local mode until it ends. It waits up to openTimeout for the streams, because events that are
// published before they exist are refused.
func (m *mode) announce(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-m.subs.Opened():
	case <-time.After(openTimeout):
	}
	for {
		changed := m.folder.renewed()
		err := m.claim.Announce(instance.Instance{
			Started: m.started, Publish: urlOf(m.public) + publishPath, Admin: urlOf(m.admin), Control: urlOf(m.control),
			Token: m.token, Namespace: m.folder.namespace(), Dashboard: m.dashboardAddress(),
		})
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// debugged holds the names of Functions that a debugger can be attached to, with or without a namespace.
type debugged map[string]bool

func newDebugged(names []string) debugged {
	d := debugged{}
	for _, name := range names {
		d[strings.TrimSpace(name)] = true
	}
	return d
}

func (d debugged) has(fn types.NamespacedName) bool { return d[fn.Name] || d[fn.String()] }

// hiddenBuffer is the buffer of connections inside the process.
const hiddenBuffer = 64 << 10

// buildBridge builds the eventbridge that a cluster runs. Deliveries that it does not finish within a short graceful shutdown are
// redelivered after the next start.
func (m *mode) buildBridge() {
	o := replica.DefaultOptions()
	o.Bridge.ShutdownDelay, o.Bridge.DrainTimeout = 0, stopTimeout
	o.Bridge.Dispatch.DrainTimeout = stopTimeout
	o.Publisher.Stream = m.streams.Name
	m.store = jetstream.NewAdminStore(m.conn, m.streams.Name, m.journal)
	m.bridge = replica.New(m.conn, eventbridge.Deps{
		Routes:        m.subs,
		Subscriptions: m.subs,
		Schedules:     m.schedules,
		Doors:         m.doors.Watch,
		Endpoints:     m.functions,
		Admin:         m.store,
		AdminAccess:   identity.Token(m.token),
		Journal:       m.journal,
		Schemas:       m.schemas,
		Destination:   m.nats,
		Registry:      daemon.NewRegistry(),
		Log:           m.log.WithName("eventbridge"),
		Listener:      m.public, MetricsListener: m.metrics, AdminListener: m.admin,
	}, o)
}

// buildScaling builds the scaler that a cluster runs, and a client that polls it as KEDA does. It reads backlogs more often than in a
// cluster, because there are few and a user watches.
func (m *mode) buildScaling() error {
	o := scaler.DefaultOptions()
	o.Stream = m.streams.Name
	o.DrainDelay, o.DrainTimeout = 0, stopTimeout
	o.Refresh.ActiveInterval, o.Refresh.IdleInterval = 250*time.Millisecond, time.Second
	o.Push.Heartbeat = time.Second // shorter than any reasonable cooldown
	m.scaler = scaler.New(scaler.Deps{
		Routes: m.subs, Endpoints: m.functions, Backlogs: m.conn, Listener: m.conn, Connection: m.conn, Wakes: m.conn,
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
