package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/activation"
)

const (
	warmConnections = 16
	warmFor         = 3 * time.Second

	wakeOn  = "enabled"
	wakeOff = "disabled" // for less than the cooldown, so that the pod stays
)

// warm returns the medians of how many requests a second a Function that is awake answers through its Service, by the same pod
// with waking on and off in turns.
func (b *httpBench) warm(ctx context.Context, rounds int) (on, off float64, err error) {
	measured := map[string][]float64{}
	for round := range rounds + 1 {
		order := []string{wakeOn, wakeOff}
		if round%2 == 1 { // what drifts, drifts for both
			slices.Reverse(order)
		}
		for _, wake := range order {
			if err := b.setWake(ctx, wake); err != nil {
				return 0, 0, err
			}
			rate, err := b.load(ctx, b.urls[warm])
			if err != nil {
				return 0, 0, err
			}
			if round > 0 { // the first warms up
				measured[wake] = append(measured[wake], rate)
				fmt.Printf("%2d/%d  http-wake %-8s %7.0f requests/s\n", round, rounds, wake, rate)
			}
		}
	}
	return rig.Median(measured[wakeOn]), rig.Median(measured[wakeOff]), b.setWake(ctx, wakeOn)
}

// setWake has HTTP wake the warm Function, or not, and waits until its slices are as they are to be.
func (b *httpBench) setWake(ctx context.Context, wake string) error {
	function := &unstructured.Unstructured{}
	function.SetGroupVersionKind(framework.FunctionGVK)
	function.SetNamespace(b.namespace)
	function.SetName(warm)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"rouse.run/http-wake":%q}}}`, wake)
	if err := b.cluster.Patch(ctx, function, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("set http-wake of the warm Function to %s: %w", wake, err)
	}
	return framework.Await(ctx, 30*time.Second, "the slices of the warm Function", func(ctx context.Context) (bool, error) {
		found := &discoveryv1.EndpointSliceList{}
		err := b.cluster.List(ctx, found, client.InNamespace(b.namespace),
			client.MatchingLabels{discoveryv1.LabelServiceName: warm, discoveryv1.LabelManagedBy: activation.ManagedBy})
		return (len(found.Items) > 0) == (wake == wakeOn), err
	})
}

func (b *httpBench) load(ctx context.Context, url string) (float64, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: warmConnections, DisableCompression: true}
	defer transport.CloseIdleConnections()
	var answered, failed atomic.Int64
	began := time.Now()
	var callers sync.WaitGroup
	for range warmConnections {
		callers.Go(func() {
			for time.Since(began) < warmFor && ctx.Err() == nil {
				if requestOnce(ctx, transport, url) == nil {
					answered.Add(1)
				} else {
					failed.Add(1)
				}
			}
		})
	}
	callers.Wait()
	b.errors += int(failed.Load())
	return float64(answered.Load()) / time.Since(began).Seconds(), ctx.Err()
}

func requestOnce(ctx context.Context, transport http.RoundTripper, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	return nil
}
