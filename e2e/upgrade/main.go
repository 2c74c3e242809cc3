// Command upgrade installs the release before into the cluster that KUBECONFIG names, puts it under a load of events and of requests
// over HTTP, upgrades everything by the chart of this checkout, holds the states in which components of both releases work together,
// and rolls back. Nothing may be lost, no request may fail, and what sleeps may not wake. It needs the local cluster, whose own Rouse
// it takes away with all Functions.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
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

// look is for how long the load goes on in each state, longer than a Function takes to fall asleep and to be woken.
const look = 35 * time.Second

// play takes the cluster from the older release to the newer one and back.
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
