package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
)

// wakes are the times of all rounds.
type wakes struct {
	// wake is until the first byte of the answer to a request at zero, and wanted until the Deployment was to have a replica.
	wake, wanted []time.Duration
	// accept is until the port of the same pod, scaled by hand, takes connections, and answer until its first answer begins.
	accept, answer []time.Duration
}

// wakes measures so many of each kind in turns.
func (b *bench) wakes(ctx context.Context, rounds int) (*wakes, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	replicas, err := b.cluster.RecordReplicas(ctx, b.namespace, sleeping)
	if err != nil {
		return nil, err
	}
	w := &wakes{}
	for round := range rounds {
		began, wake, err := b.wake(ctx)
		if err != nil {
			return nil, err
		}
		wanted, err := wantedSince(replicas, began)
		if err != nil {
			return nil, err
		}
		accept, answer, err := b.bare(ctx)
		if err != nil {
			return nil, err
		}
		w.wake, w.wanted = append(w.wake, wake), append(w.wanted, wanted)
		w.accept, w.answer = append(w.accept, accept), append(w.answer, answer)
		fmt.Printf("%2d/%d  wake %5d ms, a replica is wanted after %4d ms   bare accepts %5d ms and answers %5d ms\n",
			round+1, rounds, wake.Milliseconds(), wanted.Milliseconds(), accept.Milliseconds(), answer.Milliseconds())
	}
	return w, nil
}

// wantedSince is how long it took until the Function was to have a replica.
func wantedSince(replicas *framework.Replicas, began time.Time) (time.Duration, error) {
	for _, move := range replicas.Moves() {
		if move.Replicas > 0 && move.At.After(began) {
			return move.At.Sub(began), nil
		}
	}
	return 0, errors.New("the Function answered, and nobody saw that it was to have a replica")
}

// explain says where the time of a wake goes.
func (w *wakes) explain() {
	wanted, answer := framework.Percentile(w.wanted, 50), framework.Percentile(w.answer, 50)
	fmt.Printf("of the wake, %d ms pass until KEDA wants a replica; scaled by hand the same pod's first answer takes %d ms: together %.2f of the wake\n",
		wanted.Milliseconds(), answer.Milliseconds(), float64(wanted+answer)/float64(framework.Percentile(w.wake, 50)))
}
