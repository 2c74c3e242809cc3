package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
)

const (
	servers    = 3
	bridges    = 3
	startTries = 20
	startBound = time.Minute
)

// stage holds all processes of a run.
type stage struct {
	rig      *rig.Rig
	name     string // of its files
	fixture  rig.Fixture
	conn     *broker.Conn
	js       jetstream.JetStream
	nats     []*victim
	bridges  []*victim
	sinks    []*victim
	hostile  *rig.Process // the sink of the hostile tenant, nil without one
	journals []*journal
	events   []event

	publishing    sync.RWMutex    // locked during deletions that block publishers
	deletionsMade int             // by hand
	deletedIDs    map[string]bool // of events that a deletion may have deleted
}

// event is the result of publishing one event. Its index is its id.
type event struct {
	begun     time.Time // time of the first attempt
	published bool
	stored    chan struct{} // closed with published; only for ordered events
}

// newStage starts all processes except the hostile tenant, whose Subscriptions are added if it will be started.
func newStage(ctx context.Context, r *rig.Rig, name string, events int, hostile bool) (*stage, error) {
	s := &stage{rig: r, name: name, events: make([]event, events), deletedIDs: map[string]bool{}}
	for id := range s.events {
		if _, ordered := orderedEventOf(id); ordered {
			s.events[id].stored = make(chan struct{})
		}
	}
	ports, err := rig.Ports(2*servers + bridges + len(scenario()))
	if err != nil {
		return nil, err
	}
	clients, routes, ports := ports[:servers], ports[servers:2*servers], ports[2*servers:]
	if err := s.startNATS(clients, routes); err != nil {
		return nil, err
	}
	if err := s.startSinks(ports[bridges:]); err != nil {
		return nil, err
	}
	if hostile {
		if err := s.startHostile(); err != nil {
			return nil, err
		}
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if err := s.startBridges(ports[:bridges]); err != nil {
		return nil, err
	}
	return s, s.connect(ctx)
}

func (s *stage) startBridges(ports []int) error {
	for _, port := range ports {
		s.fixture.Endpoints[rig.Bridges.String()] = append(s.fixture.Endpoints[rig.Bridges.String()], "127.0.0.1:"+strconv.Itoa(port))
	}
	for i, port := range ports {
		v := &victim{name: fmt.Sprintf("bridge %d", i+1), port: port, start: func() (*rig.Process, error) {
			return s.rig.StartBridge(s.fixture, port, bridgeFlags()...)
		}}
		if err := v.run(); err != nil {
			return err
		}
		s.bridges = append(s.bridges, v)
	}
	return nil
}

func (s *stage) connect(ctx context.Context) (err error) {
	if s.conn, err = rig.Connect(ctx, s.fixture.NATS); err != nil {
		return err
	}
	plain, err := nats.Connect(s.fixture.NATS, nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	s.js, err = jetstream.New(plain)
	return err
}

func (s *stage) startNATS(clients, routes []int) error {
	var urls []string
	var group errgroup.Group // a server is ready when enough others are
	for i, port := range clients {
		n := rig.NATS{Name: fmt.Sprintf("%s-nats-%d", s.name, i+1), Port: port, Route: routes[i], Routes: routes}
		v := &victim{name: n.Name, port: port, start: func() (*rig.Process, error) { return s.rig.StartNATS(n) }}
		s.nats = append(s.nats, v)
		urls = append(urls, "nats://127.0.0.1:"+strconv.Itoa(port))
		group.Go(v.run)
	}
	s.fixture.NATS = strings.Join(urls, ",")
	return group.Wait()
}

func (s *stage) startSinks(ports []int) error {
	s.fixture.Endpoints = map[string][]string{}
	for i, b := range scenario() {
		j := newJournal(filepath.Join(s.rig.Dir(), s.name+"-"+b.name+".journal"))
		v := &victim{name: b.name, port: ports[i], start: func() (*rig.Process, error) {
			return s.rig.Start("sink", b.arguments(ports[i], j.path)...)
		}}
		if err := v.run(); err != nil {
			return err
		}
		s.sinks, s.journals = append(s.sinks, v), append(s.journals, j)
		route := b.route()
		s.fixture.Routes = append(s.fixture.Routes, route)
		s.fixture.Endpoints[route.Service.String()] = []string{"127.0.0.1:" + strconv.Itoa(ports[i])}
	}
	return nil
}

// prepare creates streams and consumers after the servers have elected a leader.
func (s *stage) prepare(ctx context.Context) error {
	var err error
	for deadline := time.Now().Add(startBound); time.Now().Before(deadline) && ctx.Err() == nil; {
		if err = s.fixture.PrepareAlone(ctx, s.streams(), ackWait); err == nil {
			return nil
		}
		pause(ctx, 500*time.Millisecond)
	}
	return errors.Join(ctx.Err(), err)
}

func (s *stage) heal(ctx context.Context) error {
	for _, v := range s.sinks {
		if err := rig.GetJSON(ctx, "http://127.0.0.1:"+strconv.Itoa(v.port)+"/heal", nil); err != nil {
			return err
		}
	}
	return nil
}

// close stops all processes.
func (s *stage) close() {
	s.js.Conn().Close()
	_ = s.conn.Close(context.Background())
	for _, v := range slices.Concat(s.bridges, s.sinks, s.nats) {
		v.process.Kill()
	}
	if s.hostile != nil {
		s.hostile.Kill()
	}
}

// victim is a process that is stopped and restarted, on the same port with the same store.
type victim struct {
	name    string
	port    int
	start   func() (*rig.Process, error)
	process *rig.Process
	ended   int
}

// run starts the process. It retries if another process took its port in between.
func (v *victim) run() (err error) {
	for range startTries {
		if v.process, err = v.start(); err == nil {
			return nil
		}
		time.Sleep(250 * time.Millisecond)
	}
	return fmt.Errorf("start %s: %w", v.name, err)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

const (
	settleBound = 5 * time.Minute
	quietPolls  = 3 // so that an event in transit between two streams is not missed
)

// settle waits until no event is pending, up to a limit.
func (s *stage) settle(ctx context.Context, logf func(string, ...any)) error {
	deadline := time.Now().Add(settleBound)
	for quiet := 0; quiet < quietPolls && time.Now().Before(deadline); {
		pause(ctx, time.Second)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b, err := s.backlog(ctx)
		switch {
		case err != nil:
			quiet = 0
			logf("the backlog cannot be read: %v", err)
			continue
		case b.total() == 0:
			quiet++
		default:
			quiet = 0
		}
		logf("taken by sinks %6d   not delivered %6d   in delivery %4d   waiting for a retry %4d", s.delivered(), b.pending, b.inDelivery, b.retries)
	}
	return nil
}

// backlog counts the pending events of Subscriptions.
type backlog struct{ pending, inDelivery, retries uint64 }

func (b backlog) total() uint64 { return b.pending + b.inDelivery + b.retries }

func (s *stage) backlog(ctx context.Context) (b backlog, err error) {
	for i := range s.journals { // the hostile tenant always has pending events
		own, err := s.backlogOf(ctx, i)
		if err != nil {
			return b, err
		}
		b.pending, b.inDelivery, b.retries = b.pending+own.pending, b.inDelivery+own.inDelivery, b.retries+own.retries
	}
	return b, nil
}

func (s *stage) backlogOf(ctx context.Context, i int) (backlog, error) {
	route := s.fixture.Routes[i]
	waiting, err := s.conn.WaitingRetries(ctx)
	if err != nil {
		return backlog{}, err
	}
	at, err := s.conn.Backlog(ctx, broker.DefaultStream, route.Consumer)
	if err != nil {
		return backlog{}, err
	}
	detached, err := s.conn.DetachedCallsOf(ctx, route.Subscription)
	if err != nil {
		return backlog{}, err
	}
	return backlog{pending: at.Pending, inDelivery: at.AckPending + detached, retries: waiting[route.Subscription]}, nil
}
