package apirules

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/rouse-run/rouse/controller/activator"
	"github.com/rouse-run/rouse/internal/apirule"
)

// standing is how an APIRule stands: what was decided of it, and what the gateways say.
type standing struct {
	exposure    apirule.Exposure
	fingerprint string
	// gateways is how many answer.
	gateways int
	// behind are the addresses of those of them that serve it otherwise, or not yet.
	behind []string
	// problems are those that only gateways see.
	problems apirule.Problems
}

// table is how all APIRules stand. It is safe for concurrent use.
type table struct {
	routed func(*apirule.Exposure) bool // says whether an HTTPRoute leads to it

	mu         sync.Mutex
	decided    []apirule.Exposure
	prints     []string
	reports    map[string]apirule.Report // by address; nil until the gateways were asked
	standings  map[types.NamespacedName]standing
	namespaces map[string]bool // that have routed APIRules
	complete   chan struct{}   // is closed when both is known
	closed     bool
}

func newTable(routed func(*apirule.Exposure) bool) *table {
	return &table{routed: routed, complete: make(chan struct{})}
}

// decide takes over what all APIRules amount to. It returns those that stand otherwise now.
func (t *table) decide(all []apirule.Exposure) ([]types.NamespacedName, error) {
	prints := make([]string, len(all))
	for i := range all {
		fingerprint, err := all[i].Fingerprint()
		if err != nil {
			return nil, err
		}
		prints[i] = fingerprint
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decided, t.prints = all, prints
	return t.update(), nil
}

// report takes over what the gateways that answer say. It returns the APIRules that stand otherwise now.
func (t *table) report(reports map[string]apirule.Report) []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reports = reports
	return t.update()
}

// update computes all standings again, once both is known.
func (t *table) update() []types.NamespacedName {
	if t.reports == nil || t.prints == nil {
		return nil
	}
	before := t.standings
	t.standings, t.namespaces = make(map[types.NamespacedName]standing, len(t.decided)), map[string]bool{}
	var changed []types.NamespacedName
	for i := range t.decided {
		e := &t.decided[i]
		now := standingOf(e, t.prints[i], t.reports)
		t.standings[e.APIRule] = now
		if t.routed(e) {
			t.namespaces[e.APIRule.Namespace] = true
		}
		if was, known := before[e.APIRule]; !known || was.differs(&now) {
			changed = append(changed, e.APIRule)
		}
		delete(before, e.APIRule)
	}
	for gone := range before {
		changed = append(changed, gone)
	}
	if !t.closed {
		t.closed = true
		close(t.complete)
	}
	return changed
}

// differs compares what a status depends on; the fingerprint stands for the exposure.
func (s *standing) differs(other *standing) bool {
	return s.fingerprint != other.fingerprint || (s.gateways == 0) != (other.gateways == 0) ||
		!slices.Equal(s.behind, other.behind) || !reflect.DeepEqual(s.problems, other.problems)
}

// standingOf compares what was decided of an APIRule with what the gateways say.
func standingOf(e *apirule.Exposure, fingerprint string, reports map[string]apirule.Report) standing {
	s := standing{exposure: *e, fingerprint: fingerprint, gateways: len(reports)}
	name := e.APIRule.String()
	for address := range reports {
		loaded, known := reports[address].APIRules[name]
		if !known || loaded.Fingerprint != fingerprint {
			s.behind = append(s.behind, address)
			continue
		}
		for _, each := range loaded.Problems {
			problem := apirule.Problem{Attribute: each.Attribute, Message: each.Message, Closes: apirule.RuleAt(each.Rule)}
			if !slices.Contains(s.problems, problem) {
				s.problems = append(s.problems, problem)
			}
		}
	}
	slices.Sort(s.behind)
	slices.SortFunc(s.problems, byPlace)
	return s
}

// of is how an APIRule stands.
func (t *table) of(name types.NamespacedName) (standing, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, known := t.standings[name]
	return s, known
}

// isRouted reports whether HTTPRoutes of a namespace lead here.
func (t *table) isRouted(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.namespaces[namespace]
}

// routedNamespaces are those whose HTTPRoutes lead here.
func (t *table) routedNamespaces() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.namespaces))
}

// waits reports whether a gateway that answers has to load something yet.
func (t *table) waits() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.standings {
		if len(t.standings[name].behind) > 0 {
			return true
		}
	}
	return false
}

const (
	// tick is how soon gateways are asked after a change, and again while one has to load something yet, but for
	// no longer than catchUpTimeout.
	tick           = 500 * time.Millisecond
	catchUpTimeout = time.Minute
	// rest is how often they are asked otherwise: what they say of issuers' keys changes by itself.
	rest = 10 * time.Second
	// maxMisses in a row make a gateway one that does not count.
	maxMisses = 3
)

// gateways say what they have loaded.
type gateways interface {
	Loaded(ctx context.Context, address string) (apirule.Report, error)
}

// poller asks the gateways what they have loaded. One that does not answer does not count: Kubernetes, or the controller of
// activators, takes it out of the endpoints.
type poller struct {
	addresses func(context.Context) ([]string, error)
	gateways  gateways
	table     *table
	changed   func(context.Context, []types.NamespacedName)
	decided   <-chan struct{} // gets something when there is something new to load
	clock     clock.WithTicker
	log       logr.Logger

	answers map[string]answer
	present []string // as they were asked last
	missed  bool     // one of them did not answer then
	due     bool     // something changed since then
	asked   time.Time
	changes time.Time // when something changed last
}

// answer is the last of a gateway.
type answer struct {
	report apirule.Report
	misses int // since then
}

// Start asks until ctx ends.
func (p *poller) Start(ctx context.Context) error {
	ticker := p.clock.NewTicker(tick)
	defer ticker.Stop()
	p.answers = map[string]answer{}
	for {
		if err := p.look(ctx); err != nil {
			p.log.Error(err, "cannot find the gateways")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.decided:
			p.due, p.changes = true, p.clock.Now()
		case <-ticker.C():
		}
	}
}

// look asks the gateways if that is due.
func (p *poller) look(ctx context.Context) error {
	present, err := p.addresses(ctx)
	if err != nil {
		return err
	}
	slices.Sort(present)
	now := p.clock.Now()
	if !slices.Equal(present, p.present) {
		p.present, p.due, p.changes = present, true, now
	}
	if !p.isDue(now) {
		return nil
	}
	p.asked, p.due = now, false
	p.ask(ctx)
	if ctx.Err() == nil {
		p.changed(ctx, p.table.report(p.reports()))
	}
	return nil
}

func (p *poller) isDue(now time.Time) bool {
	if p.due || now.Sub(p.asked) >= rest {
		return true
	}
	return now.Sub(p.changes) < catchUpTimeout && now.Sub(p.asked) >= tick && (p.missed || p.table.waits())
}

// ask takes over the answers of all gateways at once.
func (p *poller) ask(ctx context.Context) {
	reports, errs := make([]apirule.Report, len(p.present)), make([]error, len(p.present))
	var asked sync.WaitGroup
	for i, address := range p.present {
		asked.Go(func() { reports[i], errs[i] = p.gateways.Loaded(ctx, address) })
	}
	asked.Wait()
	before := p.answers
	p.missed = false
	p.answers = make(map[string]answer, len(p.present))
	for i, address := range p.present {
		last, known := before[address]
		p.missed = p.missed || errs[i] != nil
		switch {
		case errs[i] == nil:
			p.answers[address] = answer{report: reports[i]}
		case known && last.misses+1 < maxMisses:
			p.answers[address] = answer{report: last.report, misses: last.misses + 1}
		default:
			p.log.V(1).Info("a gateway does not say what it has loaded", "address", address, "error", errs[i].Error())
		}
	}
}

func (p *poller) reports() map[string]apirule.Report {
	reports := make(map[string]apirule.Report, len(p.answers))
	for address, last := range p.answers {
		reports[address] = last.report
	}
	return reports
}

const (
	// askTimeout is how long a gateway may take to say what it has loaded.
	askTimeout = 5 * time.Second
	// maxReport bounds that: 10,000 APIRules need about 1 MiB.
	maxReport = 16 << 20
	maxHeader = 8 << 10
)

// caller asks gateways over HTTP.
type caller struct{ client *http.Client }

func newCaller(dial activator.Dial) *caller {
	return &caller{client: &http.Client{
		Transport:     &http.Transport{DialContext: dial, MaxResponseHeaderBytes: maxHeader, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 1},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Loaded asks what a gateway has loaded.
func (c *caller) Loaded(ctx context.Context, address string) (apirule.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	report, err := c.get(ctx, net.JoinHostPort(address, strconv.Itoa(activator.GatewayPort)))
	if err != nil {
		return apirule.Report{}, fmt.Errorf("ask gateway %s for its APIRules: %w", address, err)
	}
	return report, nil
}

func (c *caller) get(ctx context.Context, host string) (report apirule.Report, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+apirule.ReportPath, nil)
	if err != nil {
		return report, err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return report, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return report, fmt.Errorf("it answers with status %d", response.StatusCode)
	}
	err = json.NewDecoder(io.LimitReader(response.Body, maxReport)).Decode(&report)
	return report, err
}
