package scaling

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/scaler"
)

// heard is how long a wake may take.
const heard = 30 * time.Second

// keda calls a scaler as KEDA's operator does for many ScaledObjects: over one connection, each with a stream.
type keda struct {
	conn   *grpc.ClientConn
	client pb.ExternalScalerClient
	refs   []*pb.ScaledObjectRef
	index  map[string]int // of each name
	trues  []atomic.Int64 // when true came last, in Unix nanoseconds; 0 since the last look
	done   sync.WaitGroup
	cancel context.CancelFunc

	mu        sync.Mutex
	latencies []time.Duration
	failed    int
}

// connect opens the streams.
func connect(ctx context.Context, address string, routes []routing.Route) (*keda, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect to the scaler: %w", err)
	}
	k := &keda{conn: conn, client: pb.NewExternalScalerClient(conn), index: map[string]int{}, trues: make([]atomic.Int64, len(routes))}
	ctx, k.cancel = context.WithCancel(ctx)
	for i, route := range routes {
		name := route.Service.Name
		k.index[name] = i
		k.refs = append(k.refs, &pb.ScaledObjectRef{
			Name: name, Namespace: route.Service.Namespace,
			ScalerMetadata: map[string]string{"scalerAddress": address, "function": name, "activationLagThreshold": "0"},
		})
		stream, err := k.client.StreamIsActive(ctx, k.refs[i])
		if err != nil {
			k.close()
			return nil, fmt.Errorf("open a stream: %w", err)
		}
		k.done.Go(func() { k.listen(i, stream) })
	}
	return k, nil
}

func (k *keda) close() {
	k.cancel()
	_ = k.conn.Close()
	k.done.Wait()
}

func (k *keda) listen(i int, stream pb.ExternalScaler_StreamIsActiveClient) {
	for {
		message, err := stream.Recv()
		if err != nil {
			return
		}
		if message.GetResult() {
			k.trues[i].CompareAndSwap(0, time.Now().UnixNano())
		}
	}
}

// startPolling polls each ScaledObject at its own moments.
func (k *keda) startPolling(ctx context.Context, every time.Duration) {
	for _, ref := range k.refs {
		k.done.Go(func() {
			if !sleep(ctx, rand.N(every)) {
				return
			}
			for ticker := time.NewTicker(every); ; {
				k.pollOnce(ctx, ref)
				select {
				case <-ctx.Done():
					ticker.Stop()
					return
				case <-ticker.C:
				}
			}
		})
	}
}

// pollOnce makes the three calls of KEDA's poll.
func (k *keda) pollOnce(ctx context.Context, ref *pb.ScaledObjectRef) {
	k.call(ctx, func() error {
		_, err := k.client.GetMetricSpec(ctx, ref)
		return err
	})
	k.call(ctx, func() error {
		_, err := k.client.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: ref, MetricName: scaler.MetricName})
		return err
	})
	k.call(ctx, func() error {
		_, err := k.client.IsActive(ctx, ref)
		return err
	})
}

func (k *keda) call(ctx context.Context, call func() error) {
	begun := time.Now()
	err := call()
	took := time.Since(begun)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		k.latencies = append(k.latencies, took)
	case ctx.Err() == nil:
		k.failed++
	}
}

// reset returns what was measured since the last reset.
func (k *keda) reset() (latencies []time.Duration, failed int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	latencies, failed = k.latencies, k.failed
	k.latencies, k.failed = nil, 0
	return latencies, failed
}

// wake publishes an event for each route within a second, and returns for how long each that heard of it waited for true.
func (k *keda) wake(ctx context.Context, publisher *nats.Conn, routes []routing.Route) ([]time.Duration, error) {
	for _, route := range routes {
		k.trues[k.index[route.Service.Name]].Store(0)
	}
	sent := make([]time.Time, len(routes))
	begun := time.Now()
	for i, route := range routes {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / time.Duration(len(routes)))))
		id := fmt.Sprintf("%s-%d", route.Service.Name, begun.UnixNano())
		sent[i] = time.Now()
		err := publisher.PublishMsg(&nats.Msg{
			Subject: route.Subjects[0], Data: []byte(`{"specversion":"1.0","id":"` + id + `","source":"bench","type":"` + route.Service.Name + `"}`),
			Header: nats.Header{"Content-Type": {"application/cloudevents+json"}},
		})
		if err == nil {
			err = publisher.Flush()
		}
		if err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
	}
	var waits []time.Duration
	for deadline := time.Now().Add(heard); ; {
		waits = waits[:0]
		for i, route := range routes {
			if at := k.trues[k.index[route.Service.Name]].Load(); at != 0 {
				waits = append(waits, time.Unix(0, at).Sub(sent[i]))
			}
		}
		if len(waits) == len(routes) || time.Now().After(deadline) || !sleep(ctx, 100*time.Millisecond) {
			return waits, ctx.Err()
		}
	}
}
