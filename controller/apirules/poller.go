package apirules

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/rouse-run/rouse/internal/apirule"
)

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
