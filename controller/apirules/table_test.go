package apirules

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rouse-run/rouse/internal/apirule"
)

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

func exposed(name, host string) apirule.Exposure {
	return apirule.Exposure{APIRule: key(name), Host: host}
}

// loads returns the report of a gateway that has loaded the Exposures.
func loads(t *testing.T, all ...apirule.Exposure) apirule.Report {
	t.Helper()
	report := apirule.Report{APIRules: map[string]apirule.Loaded{}}
	for i := range all {
		fingerprint, err := all[i].Fingerprint()
		require.NoError(t, err)
		report.APIRules[all[i].APIRule.String()] = apirule.Loaded{Fingerprint: fingerprint}
	}
	return report
}

func TestTheTableReturnsAPIRulesWithChangedState(t *testing.T) {
	t.Parallel()
	stand := newTable(func(e *apirule.Exposure) bool { return e.Host != "" })
	decide := func(all ...apirule.Exposure) []types.NamespacedName {
		changed, err := stand.decide(all)
		require.NoError(t, err)
		return changed
	}
	a, b := exposed("a", "a.example.com"), exposed("b", "b.example.com")
	require.Empty(t, decide(a, b), "no status before the gateways have been queried")
	select {
	case <-stand.complete:
		t.Fatal("the table is not complete")
	default:
	}
	both := map[string]apirule.Report{"10.0.0.1": loads(t, a, b), "10.0.0.2": loads(t, a)}
	require.ElementsMatch(t, []types.NamespacedName{key("a"), key("b")}, stand.report(both))
	<-stand.complete
	require.True(t, stand.waits())
	known, ok := stand.of(key("b"))
	require.True(t, ok)
	require.Equal(t, []string{"10.0.0.2"}, known.behind)
	require.Equal(t, 2, known.gateways)
	require.Empty(t, stand.report(both))

	both["10.0.0.2"] = loads(t, a, b)
	require.Equal(t, []types.NamespacedName{key("b")}, stand.report(both))
	require.False(t, stand.waits())
	require.Empty(t, stand.report(map[string]apirule.Report{"10.0.0.2": loads(t, a, b)}), "one gateway less changes no status")

	require.Equal(t, []string{"shop"}, stand.routedNamespaces())
	a.Host = ""
	require.Equal(t, []types.NamespacedName{key("a")}, decide(a, b))
	require.Equal(t, []types.NamespacedName{key("b")}, decide(a), "one that is gone has changed")
	require.False(t, stand.isRouted("shop"))
	_, ok = stand.of(key("b"))
	require.False(t, ok)
	require.ElementsMatch(t, []types.NamespacedName{key("a")}, stand.report(map[string]apirule.Report{}), "now there is no gateway")
}

func TestGatewayProblemsAreSortedAndReportedOnce(t *testing.T) {
	t.Parallel()
	a := exposed("a", "a.example.com")
	first := apirule.LoadedProblem{Rule: 0, Attribute: ".spec.rules[0].jwt", Message: "no keys"}
	second := apirule.LoadedProblem{Rule: 10, Attribute: ".spec.rules[10].jwt", Message: "no keys"}
	with := func(problems ...apirule.LoadedProblem) apirule.Report {
		report := loads(t, a)
		loaded := report.APIRules["shop/a"]
		loaded.Problems = problems
		report.APIRules["shop/a"] = loaded
		return report
	}
	fingerprint, err := a.Fingerprint()
	require.NoError(t, err)
	outdated := with(apirule.LoadedProblem{Message: "of what was written before"})
	outdated.APIRules["shop/a"] = apirule.Loaded{Fingerprint: "other", Problems: outdated.APIRules["shop/a"].Problems}
	s := standingOf(&a, fingerprint, map[string]apirule.Report{
		"10.0.0.1": with(second, first), "10.0.0.2": with(first), "10.0.0.3": outdated,
	})
	require.Equal(t, apirule.Problems{
		{Attribute: ".spec.rules[0].jwt", Message: "no keys", Closes: apirule.RuleAt(0)},
		{Attribute: ".spec.rules[10].jwt", Message: "no keys", Closes: apirule.RuleAt(10)},
	}, s.problems)
	require.Equal(t, []string{"10.0.0.3"}, s.behind)
}

// fakeGateways is a set of gateways with fixed reports.
type fakeGateways struct {
	mu      sync.Mutex
	reports map[string]apirule.Report
	asked   int
}

func (g *fakeGateways) Loaded(_ context.Context, address string) (apirule.Report, error) {
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
	fakes   *fakeGateways
	clock   *clocktesting.FakeClock
	present []string
}

func newPolled(t *testing.T, present ...string) *polled {
	t.Helper()
	p := &polled{t: t, fakes: &fakeGateways{reports: map[string]apirule.Report{}}, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), present: present}
	p.poller = &poller{
		addresses: func(context.Context) ([]string, error) { return append([]string{}, p.present...), nil },
		gateways:  p.fakes, table: newTable(func(*apirule.Exposure) bool { return false }), clock: p.clock, log: logr.Discard(),
		changed: func(context.Context, []types.NamespacedName) {}, answers: map[string]answer{},
	}
	return p
}

// after polls again after a time, and returns the number of queries.
func (p *polled) after(d time.Duration) int {
	p.t.Helper()
	p.clock.Step(d)
	before := p.fakes.asked
	require.NoError(p.t, p.look(p.t.Context()))
	return p.fakes.asked - before
}

func TestGatewaysArePolledOftenOnlyWhileOneIsBehind(t *testing.T) {
	t.Parallel()
	p := newPolled(t, "10.0.0.1", "10.0.0.2")
	a := exposed("a", "a.example.com")
	_, err := p.table.decide([]apirule.Exposure{a})
	require.NoError(t, err)
	p.fakes.reports["10.0.0.1"], p.fakes.reports["10.0.0.2"] = loads(t, a), loads(t)
	require.Equal(t, 2, p.after(tick), "at first")
	require.Equal(t, 2, p.after(tick), "one is behind")
	p.fakes.reports["10.0.0.2"] = loads(t, a)
	require.Equal(t, 2, p.after(tick))
	require.Zero(t, p.after(tick), "all have loaded it")
	require.Zero(t, p.after(rest-3*tick))
	require.Equal(t, 2, p.after(2*tick), "keys change by themselves")

	p.present = append(p.present, "10.0.0.3")
	require.Equal(t, 3, p.after(tick), "a new gateway is queried at once")
	require.False(t, p.table.waits(), "a gateway that has not responded must be ignored")
	p.fakes.reports["10.0.0.3"] = loads(t)
	require.Equal(t, 3, p.after(tick), "and is queried again")
	require.True(t, p.table.waits())
	require.Equal(t, 3, p.after(tick))
	p.clock.Step(catchUpTimeout)
	require.Equal(t, 3, p.after(0))
	require.Zero(t, p.after(tick), "a gateway that stays behind is not queried at this rate for ever")
}

func TestAGatewaysLastReportCountsUntilThreeMisses(t *testing.T) {
	t.Parallel()
	p := newPolled(t, "10.0.0.1", "10.0.0.2")
	p.fakes.reports["10.0.0.1"] = loads(t)
	counted := func() []string {
		var addresses []string
		for address := range p.reports() {
			addresses = append(addresses, address)
		}
		return addresses
	}
	p.after(rest)
	require.Equal(t, []string{"10.0.0.1"}, counted(), "the other one has never answered")
	delete(p.fakes.reports, "10.0.0.1")
	for range maxMisses - 1 {
		p.after(rest)
		require.Equal(t, []string{"10.0.0.1"}, counted())
	}
	p.after(rest)
	require.Empty(t, counted())
	p.fakes.reports["10.0.0.1"] = loads(t)
	p.after(rest)
	require.Equal(t, []string{"10.0.0.1"}, counted())
	p.present = nil
	p.after(rest)
	require.Empty(t, counted(), "removed gateways must be forgotten")
}

func TestGatewayResponseIsBounded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer  http.HandlerFunc
		message string
	}{
		"an error":                        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "status 500"},
		"a gateway of an earlier release": {http.NotFound, "status 404"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, "status 302"},
		"not a report": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }, "invalid character"},
		"an endless response": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"apiRules":{"`))
			for piece := []byte(strings.Repeat("a", 1<<20)); ; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}, "unexpected EOF"},
		"a long header": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("A", strings.Repeat("a", 1<<20)) }, "server response headers exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := askAt(t, tc.answer)
			require.ErrorContains(t, err, tc.message)
			require.ErrorContains(t, err, "query gateway 10.0.0.1 for its APIRules")
		})
	}
	report, err := askAt(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method+" "+r.URL.Path != "GET /apirules" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"apiRules":{"shop/price":{"fingerprint":"f","problems":[{"rule":1,"attribute":"a","message":"m"}]}}}`))
	})
	require.NoError(t, err)
	require.Equal(t, apirule.Report{APIRules: map[string]apirule.Loaded{
		"shop/price": {Fingerprint: "f", Problems: []apirule.LoadedProblem{{Rule: 1, Attribute: "a", Message: "m"}}},
	}}, report)
}

// askAt queries a gateway with this response.
func askAt(t *testing.T, answer http.HandlerFunc) (apirule.Report, error) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	asks := newCaller(func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "10.0.0.1:9091" {
			return nil, fmt.Errorf("dialed %s", address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	})
	asks.timeout = timeout // its bound is read in full on a busy machine
	return asks.Loaded(t.Context(), "10.0.0.1")
}
