package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
)

// benchSchedules measures how late the events of Schedules are stored, and whether all are and once, while nats-servers and
// bridges are killed; and how late delayed events are, while nothing is.
func benchSchedules(ctx context.Context, args []string) error {
	return rig.Run(ctx, "schedules", args, measureSchedules, nil)
}

const (
	timedServers   = 3
	timedBridges   = 3
	killServer     = 10 * time.Second // between kills, of which each server is away for serverAway
	serverAway     = 3 * time.Second
	killBridge     = 7 * time.Second
	bridgeAway     = 500 * time.Millisecond
	timedBound     = time.Minute
	delayedPerSec  = 1000
	delayedSenders = 64
	timedReader    = "reader" // its consumer
)

func measureSchedules(ctx context.Context, r *rig.Rig) error {
	count, seconds, delayed := rig.Setting("SCHEDULES", 1000), rig.Setting("ROUND_SECONDS", 300), rig.Setting("DELAYED", 100_000)
	s, err := newTimedStage(ctx, r, count)
	if err != nil {
		return err
	}
	defer s.stopReading()
	fmt.Printf("%d Schedules of a second on %d nats-servers and %d bridges for %d s; a server is killed every %s, a bridge every %s\n",
		count, timedServers, timedBridges, seconds, killServer, killBridge)
	until := time.Now().Add(time.Duration(seconds) * time.Second)
	if err := s.disturb(ctx, until); err != nil {
		return err
	}
	ticks, err := s.awaitTicks(ctx, until)
	if err != nil {
		return err
	}
	fmt.Printf("%d delayed events are published, and due %d in a second\n", delayed, delayedPerSec)
	late, err := s.delay(ctx, delayed)
	if err != nil {
		return err
	}
	fmt.Printf("schedules ticks=%d missed=%d doubled=%d late_p50_ms=%.1f late_p99_ms=%.0f; delayed n=%d late_p50_ms=%.1f late_p99_ms=%.0f\n",
		ticks.stored, ticks.missed, ticks.doubled, rig.Milliseconds(ticks.late, 50), rig.Milliseconds(ticks.late, 99),
		len(late), rig.Milliseconds(late, 50), rig.Milliseconds(late, 99))
	return nil
}

// timedStage is three nats-servers, three bridges with Schedules, and a reader of all events.
type timedStage struct {
	rig         *rig.Rig
	fixture     rig.Fixture
	conn        *broker.Conn
	servers     []*mortal
	bridges     []*mortal
	stopReading func()

	mu     sync.Mutex
	stored map[string][]time.Time // by id, when
}

// mortal is a process that is killed and started again.
type mortal struct {
	start   func() (*rig.Process, error)
	process *rig.Process
}

func (m *mortal) run() (err error) {
	const tries = 20 // another process may have the port for a moment
	for range tries {
		if m.process, err = m.start(); err == nil {
			return nil
		}
		time.Sleep(250 * time.Millisecond)
	}
	return err
}

func newTimedStage(ctx context.Context, r *rig.Rig, count int) (*timedStage, error) {
	s := &timedStage{rig: r, stored: map[string][]time.Time{}}
	ports, err := rig.Ports(2*timedServers + timedBridges)
	if err != nil {
		return nil, err
	}
	if err := s.startServers(ports[:timedServers], ports[timedServers:2*timedServers]); err != nil {
		return nil, err
	}
	if s.conn, err = rig.Connect(ctx, s.fixture.NATS); err != nil {
		return nil, err
	}
	streams := broker.DefaultStreamOptions()
	streams.Replicas, streams.DelayedMaxBytes = timedServers, 1<<30
	prepare := func() error {
		return errors.Join(s.conn.EnsureStreams(ctx, streams), s.conn.EnsureConsumer(ctx, streams.Name, broker.Consumer{
			Name: timedReader, Subjects: []string{"kyma.>"}, StartFrom: broker.StartFrom{Policy: broker.StartAll}, AckWait: time.Minute, MaxAckPending: 10_000,
		}))
	}
	for deadline := time.Now().Add(timedBound); ; time.Sleep(250 * time.Millisecond) {
		if err = prepare(); err == nil {
			break
		}
		if time.Now().After(deadline) {
			return nil, err
		}
	}
	s.fixture.Schedules = everySecond(count)
	s.read(ctx, streams.Name)
	return s, s.startBridges(ports[2*timedServers:])
}

func (s *timedStage) startServers(clients, routes []int) error {
	var urls []string
	var group errgroup.Group // a server is ready when enough others are
	for i, port := range clients {
		n := rig.NATS{Name: "nats-" + strconv.Itoa(i+1), Port: port, Route: routes[i], Routes: routes}
		m := &mortal{start: func() (*rig.Process, error) { return s.rig.StartNATS(n) }}
		s.servers = append(s.servers, m)
		urls = append(urls, "nats://127.0.0.1:"+strconv.Itoa(port))
		group.Go(m.run)
	}
	s.fixture.NATS = strings.Join(urls, ",")
	return group.Wait()
}

func (s *timedStage) startBridges(ports []int) error {
	for _, port := range ports {
		m := &mortal{start: func() (*rig.Process, error) {
			return s.rig.StartBridge(s.fixture, port, "--schedules-per-namespace=1000000", "--scheduled-events-per-minute=10000000")
		}}
		if err := m.run(); err != nil {
			return err
		}
		s.bridges = append(s.bridges, m)
	}
	return nil
}

// everySecond returns Schedules in ten namespaces.
func everySecond(count int) []*v1alpha1.Schedule {
	const namespaces = 10
	created := metav1.NewTime(time.Now().Add(5 * time.Second).Truncate(time.Second)) // once bridges are there
	all := make([]*v1alpha1.Schedule, count)
	for i := range all {
		name := "s" + strconv.Itoa(i)
		all[i] = &v1alpha1.Schedule{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "bench-" + strconv.Itoa(i%namespaces), Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: created,
			},
			Spec: v1alpha1.ScheduleSpec{
				Every: "1s", Missed: v1alpha1.Missed{Policy: v1alpha1.MissedAll, Limit: 1000}, Event: v1alpha1.ScheduledEvent{Type: "tick.v1"},
			},
		}
	}
	return all
}

// read records when each event was stored, until stopReading.
func (s *timedStage) read(ctx context.Context, stream string) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			source := broker.NewSource(s.conn, stream, timedReader, types.NamespacedName{Namespace: timedReader, Name: timedReader}, 10_000)
			_ = source.Receive(ctx, nil, func(m *broker.Message) { // fails while a server is away
				if ev, err := m.Event(); err == nil {
					s.record(ev.ID, m.Stored())
				}
				_ = m.Ack(ctx) // it comes again
			})
		}
	})
	s.stopReading = func() {
		cancel()
		reading.Wait()
	}
}

// record ignores that a message is read twice.
func (s *timedStage) record(id string, stored time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.stored[id] {
		if known.Equal(stored) {
			return
		}
	}
	s.stored[id] = append(s.stored[id], stored)
}

// disturb kills servers and bridges in turn until a time, and heals them.
func (s *timedStage) disturb(ctx context.Context, until time.Time) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return killInTurn(ctx, s.servers, killServer, serverAway, until) })
	group.Go(func() error { return killInTurn(ctx, s.bridges, killBridge, bridgeAway, until) })
	return group.Wait()
}

func killInTurn(ctx context.Context, all []*mortal, every, away time.Duration, until time.Time) error {
	for i := 0; ; i++ {
		if !sleepUntil(ctx, time.Now().Add(every-away)) || time.Now().Add(every).After(until) {
			sleepUntil(ctx, until)
			return ctx.Err()
		}
		victim := all[i%len(all)]
		victim.process.Kill()
		<-victim.process.Done()
		sleepUntil(ctx, time.Now().Add(away))
		if err := victim.run(); err != nil {
			return err
		}
	}
}

func sleepUntil(ctx context.Context, at time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Until(at)):
		return true
	}
}

// tickCount is what became of the due times of all Schedules.
type tickCount struct {
	stored, missed, doubled int
	late                    []time.Duration
}

// awaitTicks waits until the events of all due times up to a time are stored, or for a minute.
func (s *timedStage) awaitTicks(ctx context.Context, until time.Time) (found tickCount, err error) {
	for deadline := time.Now().Add(timedBound); ; {
		found = s.countTicks(until)
		if found.missed == 0 || time.Now().After(deadline) || !sleepUntil(ctx, time.Now().Add(time.Second)) {
			return found, ctx.Err()
		}
	}
}

func (s *timedStage) countTicks(until time.Time) (found tickCount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, each := range s.fixture.Schedules {
		for due := each.CreationTimestamp.Add(time.Second); due.Before(until); due = due.Add(time.Second) {
			stored := s.stored[string(each.UID)+"/"+due.UTC().Format(time.RFC3339Nano)]
			switch len(stored) {
			case 0:
				found.missed++
				continue
			case 1:
			default:
				found.doubled++
			}
			found.stored++
			found.late = append(found.late, stored[0].Sub(due))
		}
	}
	return found
}

// delay publishes events that are due one after the other, and returns how late they were stored.
func (s *timedStage) delay(ctx context.Context, count int) ([]time.Duration, error) {
	const lead = 5 * time.Second
	sending := time.Duration(count) * time.Second / 500 // at least so many in a second are taken
	first := time.Now().Add(sending + lead).Truncate(time.Second)
	due := func(i int) time.Time { return first.Add(time.Duration(i) * time.Second / delayedPerSec) }
	group, groupCtx := errgroup.WithContext(ctx)
	began := time.Now()
	for sender := range delayedSenders {
		group.Go(func() error {
			for i := sender; i < count; i += delayedSenders {
				if err := s.send(groupCtx, i, due(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	fmt.Printf("published after %s, the first is due in %s\n", time.Since(began).Round(time.Second), time.Until(first).Round(time.Second))
	sleepUntil(ctx, due(count))
	var late []time.Duration
	for deadline := time.Now().Add(timedBound); len(late) < count; {
		late = late[:0]
		s.mu.Lock()
		for i := range count {
			if stored := s.stored["delayed-"+strconv.Itoa(i)]; len(stored) > 0 {
				late = append(late, stored[0].Sub(due(i).Truncate(time.Millisecond)))
			}
		}
		s.mu.Unlock()
		if time.Now().After(deadline) {
			return late, fmt.Errorf("%d of %d delayed events are missing", count-len(late), count)
		}
		if !sleepUntil(ctx, time.Now().Add(time.Second)) {
			return nil, ctx.Err()
		}
	}
	return late, nil
}

var delayedClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: delayedSenders}}

func (s *timedStage) send(ctx context.Context, i int, due time.Time) error {
	url := s.bridges[i%len(s.bridges)].process.Address(rig.Public) + "/publish"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	for name, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": "delayed-" + strconv.Itoa(i), "Ce-Source": "timed", "Ce-Type": "late.v1", "Content-Type": "application/json",
		"Rouse-Deliver-At": due.UTC().Format(time.RFC3339Nano),
	} {
		request.Header.Set(name, value)
	}
	response, err := delayedClient.Do(request)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("publish: %s", response.Status)
	}
	return nil
}
