// Command upgrade installs the previous release into the cluster that KUBECONFIG names, puts it under a load of events
// and of HTTP requests, upgrades all components by the chart of this checkout, holds the states in which components of
// both releases work together, and rolls back. No event may be lost, no request may fail, and no sleeping Function may
// wake. It needs the local cluster, whose own Rouse it removes with all Functions.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
)

func main() {
	before := flag.String("before", "", "tag or commit that is upgraded from; empty: the last tag, or the last commit before there were releases")
	flag.Parse()
	framework.Main("upgrade", func(ctx context.Context) error { return run(ctx, *before) })
}

func run(ctx context.Context, wanted string) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Minute)
	defer cancel()
	if os.Getenv("ROUSE_REGISTRY") == "" {
		return errors.New("it deletes all Functions, and so runs on the local cluster alone, as its env selects it")
	}
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	older, err := checkOut(ctx, wanted)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(older.dir) }()
	releases, err := installOlder(ctx, older)
	if err != nil {
		return err
	}
	s, err := newStage(ctx, cluster)
	if err != nil {
		return errors.Join(err, s.end(ctx, true))
	}
	result, err := play(ctx, s, releases)
	if err == nil {
		err = result.err()
	}
	if err := errors.Join(err, s.end(ctx, err != nil)); err != nil {
		return err
	}
	fmt.Printf("upgrade ok: published=%d lost=%d failed_requests=%d rollback_lost=%d\n",
		result.published, result.lost, result.failedRequests, result.rollbackLost)
	return nil
}

// look is the duration of the load in each state, longer than a Function takes to fall asleep and to wake.
const look = 35 * time.Second

// play upgrades the cluster from the older release to the newer one and rolls it back.
func play(ctx context.Context, s *stage, releases releases) (result, error) {
	load, err := s.startLoad(ctx)
	if err != nil {
		return result{}, err
	}
	during := func(what string, change func() error) func() error {
		return func() error { return load.during(ctx, what, change) }
	}
	steps := []func() error{
		func() error { return s.remember(ctx, &s.older) },
		func() error { return s.hold(ctx, "older") },
		during("the older release", func() error { return nil }),
		during("helm upgrade", func() error { return releases.newer.upgrade(ctx) }),
		func() error { return s.remember(ctx, &s.newer) },
		func() error { return s.release(ctx) },
		func() error { return s.hold(ctx, "newer") },
	}
	for _, mix := range append(mixes(), nil) {
		steps = append(steps, during(mix.String(), func() error { return s.set(ctx, mix) }))
	}
	steps = append(steps,
		during("rollback", func() error {
			load.rollBack()
			return releases.older.upgrade(ctx, "--set", "crds.enabled=false")
		}),
		func() error { return s.release(ctx) },
	)
	for _, step := range steps {
		if err := step(); err != nil {
			return result{}, err
		}
	}
	return load.finish(ctx)
}

// result contains the counts of all events and requests.
type result struct {
	published, lost, rollbackLost, failedRequests int
	why                                           []string
}

func (r result) err() error {
	if r.published == 0 {
		return errors.New("no events were published")
	}
	if r.lost == 0 && r.rollbackLost == 0 && r.failedRequests == 0 {
		return nil
	}
	return fmt.Errorf("published=%d lost=%d failed_requests=%d rollback_lost=%d: %s",
		r.published, r.lost, r.failedRequests, r.rollbackLost, strings.Join(r.why, "; "))
}

// kept contains the broker's remaining events of a chain.
type kept struct {
	pending, deadLetters uint64
}

// missing counts the events of each chain that were neither handled, nor are pending, nor dead letters. It assumes that
// the remaining events are the last published ones.
func missing(taken []event, handled map[string]bool, kept map[string]kept) (lost, rollbackLost int, why []string) {
	left := map[string][]event{}
	for _, event := range taken {
		if !handled[event.key] {
			left[event.chain] = append(left[event.chain], event)
		}
	}
	for chain, events := range left {
		have := int(kept[chain].pending + kept[chain].deadLetters)
		for _, event := range events[:max(0, len(events)-have)] {
			why = append(why, event.key+" is lost")
			if event.rollback {
				rollbackLost++
			} else {
				lost++
			}
		}
	}
	slices.Sort(why)
	return lost, rollbackLost, why
}

// finish ends the load, waits until all events are settled, and counts.
func (l *load) finish(ctx context.Context) (result, error) {
	l.stop()
	l.wg.Wait()
	if l.err != nil {
		return result{}, l.err
	}
	requests, failed, why := l.visits, len(l.failures), l.failures
	for called := range steady() {
		report, err := l.s.callers[called].Pause(ctx)
		if err != nil {
			return result{}, err
		}
		fmt.Printf("%s: %d requests, %d failed\n", called, report.Asked, report.Failed)
		requests, failed, why = requests+report.Asked, failed+report.Failed, append(why, report.Failures...)
	}
	kept, err := l.settled(ctx)
	if err != nil {
		return result{}, err
	}
	entries, err := l.s.cluster.Ledger(ctx, l.s.namespace)
	if err != nil {
		return result{}, err
	}
	handled := map[string]bool{}
	for key := range entries {
		handled[key] = true
	}
	r := result{published: len(l.taken), failedRequests: failed}
	lost, rollbackLost, whyLost := missing(l.taken, handled, kept)
	r.lost, r.rollbackLost, r.why = lost, rollbackLost, slices.Concat(why, whyLost)
	fmt.Printf("acked=%d dead_letters=%d pending=%d requests=%d wakes_by_request=%d publishes_refused_and_sent_again=%d\n",
		len(handled), kept[refuser].deadLetters, pending(kept), requests, l.held, l.refused)
	return r, nil
}

func pending(kept map[string]kept) (sum uint64) {
	for _, chain := range kept {
		sum += chain.pending
	}
	return sum
}

// settled waits until no event is pending, or for the maximum delay of a retry, and returns the remaining events.
func (l *load) settled(ctx context.Context) (map[string]kept, error) {
	found := map[string]kept{}
	err := framework.Await(ctx, 2*time.Minute, "all events to be settled", func(ctx context.Context) (bool, error) {
		for _, chain := range append(chains(), framework.LedgerName) {
			balance, err := l.s.cluster.Balance(ctx, l.s.namespace, chain)
			if err != nil {
				return false, err
			}
			found[chain] = kept{pending: balance.Pending, deadLetters: balance.DeadLetters}
			if balance.Pending > 0 {
				return false, fmt.Errorf("%s has %d", chain, balance.Pending)
			}
		}
		return true, nil
	})
	if ctx.Err() == nil && len(found) > 0 && err != nil { // pending events count as kept
		fmt.Println(err)
		err = nil
	}
	return found, err
}
