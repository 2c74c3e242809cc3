package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/autoscale"
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
	"github.com/rouse-run/rouse/scaler"
)

const (
	// feedLines of each Function are kept, journalRecords of all events.
	feedLines      = 5000
	journalRecords = 20_000
	publishPath    = "/publish"
	// openTimeout is how long others cannot find a local mode whose streams take no events yet.
	openTimeout = 30 * time.Second
)

// mode is one local mode and its parts.
type mode struct {
	options Options
	claim   *instance.Claim
	state   string // folder
	token   string
	nats    string // URL
	streams broker.StreamOptions
	events  []cloudevent.Event
	log     logr.Logger
	started time.Time
	kept    string // what is printed at the end

	feed        *process.Feed
	journal     *journal.Journal
	conn        *broker.Conn
	supervisor  *process.Supervisor
	functions   *runner.Functions
	apiRules    *APIRules
	scaling     *autoscale.Autoscaler
	subs        *subscriptionWorkers
	bridge      *eventbridge.Bridge
	store       *jetstream.AdminStore
	scaler      *scaler.Scaler
	scalerConn  *grpc.ClientConn
	deadLetters *deadLetters
	source      *source
	folder      *folder

	public, admin, control net.Listener
	outside                net.Listener      // of APIRules
	outsideMoved           bool              // to another port than the usual one
	firstPort              int               // of Functions
	hidden                 *bufconn.Listener // of the scaler
	metrics                *bufconn.Listener // without a client
}

func newFeed() *process.Feed { return process.NewFeed(feedLines) }

// logLine adds a line of local mode's own to the feed.
func (m *mode) logLine(text string) { m.feed.Add(process.Line{Stream: process.Rouse, Text: text}) }

func (m *mode) logFunctionLine(fn types.NamespacedName, text string) {
	m.feed.Add(process.Line{Namespace: fn.Namespace, Function: fn.Name, Stream: process.Rouse, Text: text})
}

// run makes the parts and runs them, the lower ones longer.
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

// open takes the ports, the connection and the supervisor.
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
		m.firstPort = defaultPort + 1 // any one would be another with each start
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

// close frees what open took. What was served is closed already.
func (m *mode) close() {
	for _, listener := range []net.Listener{m.public, m.admin, m.control, m.outside} {
		if listener != nil {
			_ = listener.Close() // its server did
		}
	}
	if m.scalerConn != nil {
		_ = m.scalerConn.Close() // it has no client any more
	}
	if m.supervisor != nil {
		if err := m.supervisor.Close(); err != nil {
			m.log.Info("cannot end all processes", "reason", err.Error())
		}
	}
}

// holdConnection keeps the connection to NATS until the end, for a moment longer.
func (m *mode) holdConnection(ctx context.Context) error {
	<-ctx.Done()
	m.countKept(ctx)
	return stop(ctx, m.log, m.conn.Close)
}

func (m *mode) build(ctx context.Context) error {
	m.journal = journal.New(journalRecords)
	m.subs = newSubscriptions(m.conn, m.streams, m.reportSubscription, m.log.WithName("subscriptions"))
	m.conn.OnConnect(m.subs.Check)
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
	m.apiRules = newAPIRules(apiRulesDeps{Listener: m.outside, Serve: m.functions.Serve, Log: m.log.WithName("apirules")})
	if err := m.buildScaling(); err != nil {
		return err
	}
	m.buildBridge()
	m.deadLetters = newDeadLetters(m.conn.DeadLetterCounts)
	m.source = &source{
		directory: m.options.Directory, publish: urlOf(m.public) + publishPath, admin: urlOf(m.admin),
		functions: m.functions, apiRules: m.apiRules, scaling: m.scaling, subs: m.subs, deadLetters: m.deadLetters, journal: m.journal, feed: m.feed,
		publisher: newPublisher(urlOf(m.public) + publishPath), events: m.events, changed: make(chan struct{}),
	}
	m.folder = &folder{
		directory: m.claim.Directory(), shown: m.options.Directory, reader: manifest.NewReader(), functions: m.functions, subs: m.subs,
		apiRules: m.apiRules, scaling: m.scaling, debug: debug, source: m.source, logLine: m.logLine, changed: make(chan struct{}, 1),
	}
	// The first reading comes before anything runs, so that a folder that cannot be read ends the start.
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

// work runs everything that stands on NATS and the Functions. When one part ends, all do.
func (m *mode) work(ctx context.Context) error {
	return together(ctx,
		m.bridge.Run,
		func(ctx context.Context) error { return m.scaler.Serve(ctx, m.hidden) },
		m.scaling.Run,
		m.subs.Run,
		m.apiRules.Run,
		m.folder.watch,
		m.serveControl,
		m.deadLetters.run,
		m.announce,
		m.show,
	)
}

// together runs parts until one of them ends, and then until all have.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group errgroup.Group
	for _, part := range parts {
		group.Go(func() error {
			defer cancel()
			err := part(ctx)
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return nil // it was asked to stop
			}
			return err
		})
	}
	return group.Wait()
}

func (m *mode) serveControl(ctx context.Context) error {
	handler := NewControl(ControlDeps{
		Functions: m.functions, Exposures: m.apiRules, Subscriptions: m.subs, Backlogs: m.scaling, Lines: m.feed, Token: m.token,
	})
	return daemon.Serve(ctx, daemon.Server{
		Name: "control", Listener: m.control, Handler: handler.Until(ctx), DrainTimeout: stopTimeout,
	}, m.log)
}

// announce publishes the addresses of the local mode until it ends. It waits for the streams, because an event that is published
// before them is refused, but not for ever: streams that cannot be made must not hide the rest.
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
			Token: m.token, Namespace: m.folder.namespace(),
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

// debugged are the Functions that a debugger can be attached to, as the user names them: with or without namespace.
type debugged map[string]bool

func newDebugged(names []string) debugged {
	d := debugged{}
	for _, name := range names {
		d[strings.TrimSpace(name)] = true
	}
	return d
}

func (d debugged) has(fn types.NamespacedName) bool { return d[fn.Name] || d[fn.String()] }

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

const host = "127.0.0.1"

// listen takes a port of this machine, 0 for any.
func listen(ctx context.Context, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

// listenAt takes the port that a flag wishes for. Without a wish, which is 0, it is the usual one, or any when that is taken; then
// moved is true.
func listenAt(ctx context.Context, flag string, wish, usual int) (listener net.Listener, moved bool, err error) {
	port := wish
	if wish == 0 {
		port = usual
	}
	listener, err = listen(ctx, port)
	if err == nil {
		return listener, false, nil
	}
	if wish != 0 {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, false, fmt.Errorf("port %d is taken: choose another with %s, or leave the flag out for any", wish, flag)
		}
		return nil, false, fmt.Errorf("take the port of %s: %w", flag, err)
	}
	if listener, err = listen(ctx, 0); err != nil {
		return nil, false, fmt.Errorf("take a port instead of %d: %w", usual, err)
	}
	return listener, true, nil
}

func portOf(listener net.Listener) int {
	if address, ok := listener.Addr().(*net.TCPAddr); ok {
		return address.Port
	}
	return 0
}

func urlOf(listener net.Listener) string { return "http://" + listener.Addr().String() }

const (
	mebibyte = 1 << 20
	// leastFree is what a disk must have left for a start.
	leastFree = 64 * mebibyte
	// storeBytes is more than streams ever reserve. What bounds them is their own size.
	storeBytes = 4096 * mebibyte
)

// free is how many bytes the disk of a folder has left.
func free(folder string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(folder, &stat); err != nil {
		return 0, fmt.Errorf("ask for the room on the disk of %s: %w", folder, err)
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:unconvert // it has another type on other systems
}

// streamsFor fit the streams into what is free: a cluster's sizes, or less where there is less.
func streamsFor(folder string, free int64) (broker.StreamOptions, error) {
	o := broker.DefaultStreamOptions()
	if free < leastFree {
		return o, fmt.Errorf("the disk of %s has %d MiB left, and local mode needs %d: make room, or name another folder with --state",
			folder, free/mebibyte, leastFree/mebibyte)
	}
	o.MaxBytes = min(o.MaxBytes, free/4)
	o.RetryMaxBytes = min(o.RetryMaxBytes, free/16)
	o.DeadLetterMaxBytes = min(o.DeadLetterMaxBytes, free/16)
	return o, nil
}
