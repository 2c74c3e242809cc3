package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// start is when the first of some pods reached each stage, as a watch saw it, which is a millisecond or two after it happened.
type start struct {
	made, bound, addressed time.Time
	ready                  time.Time // zero while it is not
	address                string
}

// watchStart watches the pods with the labels until ctx ends, and returns what was seen of the first one. The channel is closed when
// the pod has an address.
func watchStart(ctx context.Context, cluster *framework.Cluster, namespace string, labels client.MatchingLabels) (seen func() start, addressed <-chan struct{}, err error) {
	var mu sync.Mutex
	var s start
	known := make(chan struct{})
	err = cluster.RecordPods(ctx, namespace, labels, func(pod *corev1.Pod) {
		if pod.Labels[framework.StandInLabel] != "" {
			return // it was there before
		}
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		first := func(at *time.Time, reached bool) bool {
			is := at.IsZero() && reached
			if is {
				*at = now
			}
			return is
		}
		first(&s.made, true)
		first(&s.bound, pod.Spec.NodeName != "")
		first(&s.ready, framework.Ready(pod))
		if first(&s.addressed, pod.Status.PodIP != "") {
			s.address = pod.Status.PodIP
			close(known)
		}
	})
	return func() start {
		mu.Lock()
		defer mu.Unlock()
		return s
	}, known, err
}

// stages are the times of one wake, or of one scale-up by hand, since its beginning.
type stages struct {
	wanted, made, bound, addressed, answered time.Duration
	ready                                    time.Duration // of a bare pod
}

func (s start) since(began time.Time) stages {
	return stages{made: s.made.Sub(began), bound: s.bound.Sub(began), addressed: s.addressed.Sub(began), ready: s.ready.Sub(began)}
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

// median returns the median of each stage.
func median(all []stages) stages {
	of := func(stage func(stages) time.Duration) time.Duration {
		times := make([]time.Duration, len(all))
		for i, each := range all {
			times[i] = stage(each)
		}
		return framework.Percentile(times, 50)
	}
	return stages{
		wanted:    of(func(s stages) time.Duration { return s.wanted }),
		made:      of(func(s stages) time.Duration { return s.made }),
		bound:     of(func(s stages) time.Duration { return s.bound }),
		addressed: of(func(s stages) time.Duration { return s.addressed }),
		answered:  of(func(s stages) time.Duration { return s.answered }),
		ready:     of(func(s stages) time.Duration { return s.ready }),
	}
}

// millisecondsPerBlock is the scale of the bars.
const millisecondsPerBlock = 20

// printStages prints the medians of wakes beside those of scale-ups by hand, with a bar for how long each stage of a wake lasts.
func printStages(runtime string, wakes, bares []stages) {
	wake, bare := median(wakes), median(bares)
	fmt.Printf("\n%-30s %8s %8s\n", "ms until, of "+runtime, "wake", "bare")
	last := time.Duration(0)
	for _, line := range []struct {
		stage      string
		wake, bare time.Duration
	}{
		{"a replica is wanted", wake.wanted, bare.wanted},
		{"the pod exists", wake.made, bare.made},
		{"a node is chosen", wake.bound, bare.bound},
		{"its address is known", wake.addressed, bare.addressed},
		{"the first byte is there", wake.answered, bare.answered},
	} {
		blocks := (line.wake - last).Milliseconds() / millisecondsPerBlock
		before := max(last.Milliseconds(), 0) / millisecondsPerBlock
		fmt.Printf("%-30s %8d %8d  %s%s\n", line.stage, line.wake.Milliseconds(), line.bare.Milliseconds(),
			strings.Repeat(" ", int(before)), strings.Repeat("#", int(max(blocks, 0))))
		last = line.wake
	}
	fmt.Printf("%-30s %8s %8d\n\n", "Kubernetes finds it Ready", "", bare.ready.Milliseconds())
}
