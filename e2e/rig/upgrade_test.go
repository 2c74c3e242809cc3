package rig

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// TestMain is also the main function of the processes that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == roleFlag {
		Main(nil, nil)
		return
	}
	os.Exit(m.Run())
}

const (
	upgradeBridges  = 3
	upgradeInFlight = 10
	upgradeStep     = 100 // events between two steps of the upgrade
	upgradeLag      = 20  // events until the Service leaves out a bridge that stops
	testTimeout     = time.Minute
)

// All bridges are replaced one after the other, each by SIGTERM after its successor is ready, as in Kubernetes, while
// publishers publish and a sink accepts events, some of them at the second attempt.
func TestRollingUpgradeOfTheBridgesUnderLoadLosesNoEvent(t *testing.T) {
	t.Parallel()
	r, err := newRig()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	taken := &ledger{calls: map[string]int{}, acked: map[string]int{}}
	w := Fixture{
		NATS:      natstest.Start(t).URL(),
		Routes:    []routing.Route{Route("shop", "orders", "shop", "order.v1", upgradeInFlight)},
		Endpoints: map[string][]string{"shop/orders": {loopback.StartSink(t, taken.receive).Address()}},
	}
	require.NoError(t, w.PrepareAlone(t.Context(), broker.DefaultStreamOptions(), 30*time.Second))
	run := func() *Process {
		bridge, err := r.StartBridge(w, 0, "--shutdown-delay=500ms", "--delivery-backoff=20ms")
		require.NoError(t, err)
		return bridge
	}
	service := &service{}
	var bridges []*Process
	for range upgradeBridges {
		bridges = append(bridges, run())
		service.add(bridges[len(bridges)-1])
	}

	load := startLoad(t, service)
	for _, old := range bridges {
		load.await(t, upgradeStep)
		service.add(run())
		load.await(t, upgradeStep)
		ended := make(chan error, 1)
		go func() { ended <- old.Stop() }()
		load.await(t, upgradeLag)
		service.remove(old)
		require.NoError(t, <-ended, "the bridge must drain and exit with 0")
	}
	load.await(t, upgradeStep)
	published := load.stop(t)

	require.Eventually(t, func() bool { return taken.count() >= published }, testTimeout, 10*time.Millisecond,
		"lost: published %d, taken %d", published, taken.count())
	require.LessOrEqual(t, taken.duplicates(), upgradeBridges*upgradeInFlight, "only events in flight may be duplicated")
	conn, err := Connect(t.Context(), w.NATS)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	require.Eventually(t, func() bool {
		left, err := conn.Backlog(t.Context(), broker.DefaultStream, w.Routes[0].Consumer)
		waiting, otherErr := conn.WaitingRetries(t.Context())
		return err == nil && otherErr == nil && left.Total() == 0 && len(waiting) == 0
	}, testTimeout, 10*time.Millisecond, "something is still pending")
	require.Equal(t, published, taken.count())
	t.Logf("published=%d duplicates=%d connections refused or broken=%d", published, taken.duplicates(), load.broken)
}

// ledger is a sink that records the accepted events. It accepts every seventh one at the second attempt.
type ledger struct {
	mu           sync.Mutex
	calls, acked map[string]int
}

func (l *ledger) receive(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := r.Header.Get("Ce-Id")
	number, _ := strconv.Atoi(id)
	if l.calls[id]++; number%7 == 0 && l.calls[id] == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	l.acked[id]++
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

func (l *ledger) duplicates() (more int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.acked {
		more += times - 1
	}
	return more
}

// service holds the bridges for publishers, like a Service of Kubernetes.
type service struct {
	mu      sync.Mutex
	bridges []*Process
	next    int
}

func (s *service) add(bridge *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bridges = append(s.bridges, bridge)
}

func (s *service) remove(bridge *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bridges = slices.DeleteFunc(slices.Clone(s.bridges), func(b *Process) bool { return b == bridge })
}

func (s *service) url() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.bridges[s.next%len(s.bridges)].Address(Public) + "/publish"
}

// load is a group of publishers that publish one event after the other, each until a bridge has responded.
type load struct {
	service   *service
	client    *http.Client
	cancel    context.CancelFunc
	running   sync.WaitGroup
	published chan struct{} // one value per event

	mu           sync.Mutex
	next, broken int
	failure      error
}

func startLoad(t *testing.T, service *service) *load {
	t.Helper()
	const publishers = 4
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{
		service: service, cancel: cancel, published: make(chan struct{}, 1_000_000),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: publishers}},
	}
	for range publishers {
		l.running.Go(func() {
			for ctx.Err() == nil {
				if err := l.publish(context.WithoutCancel(ctx), l.id()); err != nil {
					l.fail(err)
					return
				}
				l.published <- struct{}{}
			}
		})
	}
	return l
}

func (l *load) id() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return strconv.Itoa(l.next)
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = err
	l.cancel()
}

// publish retries after a broken connection; every response other than 204 is a failure.
func (l *load) publish(ctx context.Context, id string) error {
	for {
		event := Event{ID: id, Source: "shop", Type: "order.v1", Data: `{"order":` + id + `}`}
		status, _, err := event.Publish(ctx, l.client, l.service.url())
		if err != nil {
			l.mu.Lock()
			l.broken++
			l.mu.Unlock()
			continue
		}
		if status != http.StatusNoContent {
			return fmt.Errorf("publish event %s: status %d", id, status)
		}
		return nil
	}
}

// await waits for the given number of further events.
func (l *load) await(t *testing.T, events int) {
	t.Helper()
	for range events + len(l.published) {
		select {
		case <-l.published:
		case <-time.After(testTimeout):
			l.mu.Lock()
			defer l.mu.Unlock()
			require.FailNow(t, "publishing has stopped", "%v", l.failure)
		}
	}
}

// stop returns the number of published events.
func (l *load) stop(t *testing.T) int {
	t.Helper()
	l.cancel()
	l.running.Wait()
	l.client.CloseIdleConnections()
	require.NoError(t, l.failure)
	return l.next
}
