package apirules

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rouse-run/rouse/internal/apirule"
)

// told are gateways of which some answer.
type told struct {
	mu      sync.Mutex
	reports map[string]apirule.Report
	asked   int
}

func (g *told) Loaded(_ context.Context, address string) (apirule.Report, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	report, answers := g.reports[address]
	if !answers {
		return report, errors.New("it does not answer")
	}
	return report, nil
}

type polled struct {
	*poller
	t       *testing.T
	told    *told
	clock   *clocktesting.FakeClock
	present []string
}

func newPolled(t *testing.T, present ...string) *polled {
	t.Helper()
	p := &polled{t: t, told: &told{reports: map[string]apirule.Report{}}, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), present: present}
	p.poller = &poller{
		addresses: func(context.Context) ([]string, error) { return append([]string{}, p.present...), nil },
		gateways:  p.told, table: newTable(func(*apirule.Exposure) bool { return false }), clock: p.clock, log: logr.Discard(),
		changed: func(context.Context, []types.NamespacedName) {}, answers: map[string]answer{},
	}
	return p
}

// after looks again when that time is over, and returns how many questions that made.
func (p *polled) after(d time.Duration) int {
	p.t.Helper()
	p.clock.Step(d)
	before := p.told.asked
	require.NoError(p.t, p.look(p.t.Context()))
	return p.told.asked - before
}

func TestGatewaysAreAskedOftenOnlyWhileOneIsBehind(t *testing.T) {
	t.Parallel()
	p := newPolled(t, "10.0.0.1", "10.0.0.2")
	a := exposed("a", "a.example.com")
	_, err := p.table.decide([]apirule.Exposure{a})
	require.NoError(t, err)
	p.told.reports["10.0.0.1"], p.told.reports["10.0.0.2"] = loads(t, a), loads(t)
	require.Equal(t, 2, p.after(tick), "at first")
	require.Equal(t, 2, p.after(tick), "one is behind")
	p.told.reports["10.0.0.2"] = loads(t, a)
	require.Equal(t, 2, p.after(tick))
	require.Zero(t, p.after(tick), "all have loaded it")
	require.Zero(t, p.after(rest-3*tick))
	require.Equal(t, 2, p.after(2*tick), "keys change by themselves")

	p.present = append(p.present, "10.0.0.3")
	require.Equal(t, 3, p.after(tick), "a new one is asked at once")
	require.False(t, p.table.waits(), "what has not answered does not count")
	p.told.reports["10.0.0.3"] = loads(t)
	require.Equal(t, 3, p.after(tick), "and is asked again")
	require.True(t, p.table.waits())
	require.Equal(t, 3, p.after(tick))
	p.clock.Step(catchUpTimeout)
	require.Equal(t, 3, p.after(0))
	require.Zero(t, p.after(tick), "one that stays behind is not asked for ever")
}

func TestAGatewayThatDoesNotAnswerCountsAsItDidForAWhile(t *testing.T) {
	t.Parallel()
	p := newPolled(t, "10.0.0.1", "10.0.0.2")
	p.told.reports["10.0.0.1"] = loads(t)
	counted := func() []string {
		var addresses []string
		for address := range p.reports() {
			addresses = append(addresses, address)
		}
		return addresses
	}
	p.after(rest)
	require.Equal(t, []string{"10.0.0.1"}, counted(), "the other one has never answered")
	delete(p.told.reports, "10.0.0.1")
	for range maxMisses - 1 {
		p.after(rest)
		require.Equal(t, []string{"10.0.0.1"}, counted())
	}
	p.after(rest)
	require.Empty(t, counted())
	p.told.reports["10.0.0.1"] = loads(t)
	p.after(rest)
	require.Equal(t, []string{"10.0.0.1"}, counted())
	p.present = nil
	p.after(rest)
	require.Empty(t, counted(), "what is gone is forgotten")
}
