package activator

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// probeInterval is how often a gateway is asked, and twice as often after it has not answered.
	probeInterval = time.Second
	// maxMisses in a row make a gateway lost.
	maxMisses = 2
)

// health asks whether a gateway works.
type health interface {
	Works(ctx context.Context, address string) error
}

// prober finds gateways that Kubernetes takes for ready and that do not answer, as on a node that has failed. One is lost
// within two seconds and back with its first answer.
type prober struct {
	reader  client.Reader
	service types.NamespacedName
	health  health
	changed func(context.Context) // is called when a gateway was lost or is back
	log     logr.Logger

	mu     sync.Mutex
	misses map[string]int // by address; none for those that have answered
}

// lost reports whether a gateway does not answer.
func (p *prober) lost(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.misses[address] >= maxMisses
}

// Start asks the gateways until ctx ends.
func (p *prober) Start(ctx context.Context) error {
	ticker := time.NewTicker(probeInterval / 2)
	defer ticker.Stop()
	for all := true; ; all = !all {
		if p.probe(ctx, all) {
			p.changed(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// probe asks all gateways, or those that have just not answered. It reports whether one was lost or is back.
func (p *prober) probe(ctx context.Context, all bool) bool {
	list, err := slicesOf(ctx, p.reader, p.service)
	if err != nil {
		p.log.Error(err, "cannot find the gateways")
		return false
	}
	var present []string
	for _, family := range gatewaysOf(list, func(string) bool { return false }).ready {
		for _, each := range family {
			present = append(present, each.address)
		}
	}
	answers := make(map[string]bool, len(present))
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, address := range present {
		if !all && !p.missed(address) {
			continue
		}
		asked.Go(func() {
			err := p.health.Works(ctx, address)
			mu.Lock()
			defer mu.Unlock()
			answers[address] = err == nil
		})
	}
	asked.Wait()
	if ctx.Err() != nil {
		return false
	}
	return p.settle(present, answers)
}

func (p *prober) missed(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.misses[address] > 0
}

// settle takes over a round of answers.
func (p *prober) settle(present []string, answers map[string]bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.misses
	p.misses = next(before, present, answers)
	changed := false
	for _, address := range present {
		was, is := before[address] >= maxMisses, p.misses[address] >= maxMisses
		if was == is {
			continue
		}
		changed = true
		if is {
			p.log.Info("a gateway does not answer", "address", address)
		} else {
			p.log.Info("a gateway answers again", "address", address)
		}
	}
	return changed
}

// next counts how often gateways in a row have not answered. Those that are not present any more are forgotten.
func next(misses map[string]int, present []string, answers map[string]bool) map[string]int {
	after := map[string]int{}
	for _, address := range present {
		answered, asked := answers[address]
		switch {
		case !asked && misses[address] > 0:
			after[address] = misses[address]
		case asked && !answered:
			after[address] = min(misses[address]+1, maxMisses)
		}
	}
	return after
}
