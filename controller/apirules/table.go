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

// standing is the state of an APIRule: the controller's decision and the gateways' reports.
type standing struct {
	exposure    apirule.Exposure
	fingerprint string
	// gateways is the number of gateways that answer.
	gateways int
	// behind holds the addresses of the gateways that do not serve this version, or not yet.
	behind []string
	// problems are those that only gateways detect.
	problems apirule.Problems
}

// table holds the state of all APIRules. It is safe for concurrent use.
type table struct {
	routed func(*apirule.Exposure) bool // reports whether an HTTPRoute leads to an APIRule

	mu         sync.Mutex
	decided    []apirule.Exposure
	prints     []string
	reports    map[string]apirule.Report // by address; nil until the gateways have been queried
	standings  map[types.NamespacedName]standing
	namespaces map[string]bool // with routed APIRules
	complete   chan struct{}   // closed once decisions and reports are known
	closed     bool
}

func newTable(routed func(*apirule.Exposure) bool) *table {
	return &table{routed: routed, complete: make(chan struct{})}
}

// decide records the decisions about all APIRules. It returns those whose state has changed.
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

// report records the reports of the gateways that answer. It returns the APIRules whose state has changed.
func (t *table) report(reports map[string]apirule.Report) []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reports = reports
	return t.update()
}

// update recomputes all states once decisions and reports are known.
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

// standingOf compares the decision about an APIRule with the gateways' reports.
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

// of returns the state of an APIRule.
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

// routedNamespaces returns the namespaces whose HTTPRoutes lead here.
func (t *table) routedNamespaces() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.namespaces))
}

// waits reports whether a gateway that answers has yet to load something.
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
	// tick is the delay after which gateways are queried after a change, and again while one has yet to load something,
	// for at most catchUpTimeout.
	tick           = 500 * time.Millisecond
	catchUpTimeout = time.Minute
	// rest is the interval otherwise: the state of issuers' keys changes without an event.
	rest = 10 * time.Second
	// maxMisses is the number of missed answers in a row after which a gateway no longer counts.
	maxMisses = 3
)

// gateways reports what gateways have loaded.
type gateways interface {
	Loaded(ctx context.Context, address string) (apirule.Report, error)
}

// poller queries the gateways for what they have loaded. A gateway that does not answer does not count: Kubernetes, or
// the activator controller, removes it from the endpoints.
type poller struct {
	addresses func(context.Context) ([]string, error)
	gateways  gateways
	table     *table
	changed   func(context.Context, []types.NamespacedName)
	decided   <-chan struct{} // signals that there is something new to load
	clock     clock.WithTicker
	log       logr.Logger

	answers map[string]answer
	present []string // at the last query
	missed  bool     // one of them did not answer the last query
	due     bool     // something changed since then
	asked   time.Time
	changes time.Time // time of the last change
}

// answer is the last answer of a gateway.
type answer struct {
	report apirule.Report
	misses int // since then
}

// Start polls until ctx ends.
func (p *poller) Start(ctx context.Context) error {
	ticker := p.clock.NewTicker(tick)
	defer ticker.Stop()
	p.answers = map[string]answer{}
	for {
		if err := p.look(ctx); err != nil {
			p.log.Error(err, "cannot list the gateways")
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

// look queries the gateways if that is due.
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
	p.query(ctx)
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

// query records the answers of all gateways, which are queried concurrently.
func (p *poller) query(ctx context.Context) {
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
			p.log.V(1).Info("gateway does not report what it has loaded", "address", address, "error", errs[i].Error())
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
	// queryTimeout bounds how long a gateway may take to report what it has loaded.
	queryTimeout = 5 * time.Second
	// maxReport bounds the size of a report: 10,000 APIRules need about 1 MiB.
	maxReport = 16 << 20
	maxHeader = 8 << 10
)

// caller queries gateways over HTTP.
type caller struct {
	client  *http.Client
	timeout time.Duration // of one query
}

func newCaller(dial activator.Dial) *caller {
	return &caller{timeout: queryTimeout, client: &http.Client{
		Transport:     &http.Transport{DialContext: dial, MaxResponseHeaderBytes: maxHeader, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 1},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Loaded returns what a gateway has loaded.
func (c *caller) Loaded(ctx context.Context, address string) (apirule.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	report, err := c.get(ctx, net.JoinHostPort(address, strconv.Itoa(activator.GatewayPort)))
	if err != nil {
		return apirule.Report{}, fmt.Errorf("query gateway %s for its APIRules: %w", address, err)
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
	defer response.Body.Close() //nolint:errcheck // read only
	if response.StatusCode != http.StatusOK {
		return report, fmt.Errorf("status %d", response.StatusCode)
	}
	err = json.NewDecoder(io.LimitReader(response.Body, maxReport)).Decode(&report)
	return report, err
}
