package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// Balance is what JetStream knows of one Subscription.
type Balance struct {
	Pending     uint64 // stored and not yet acked, rejected or dead-lettered
	DeadLetters uint64 // stored as dead letters
}

// Balance asks JetStream for a Subscription's backlog and its dead letters.
func (c *Cluster) Balance(ctx context.Context, namespace, subscription string) (Balance, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	pods, err := c.PodsOf(ctx, "nats")
	if err != nil {
		return Balance{}, err
	}
	port, err := c.Forward(ctx, &pods[0], 4222)
	if err != nil {
		return Balance{}, err
	}
	options := broker.Options{Name: "rouse-e2e", URL: fmt.Sprintf("nats://127.0.0.1:%d", port)}
	conn, err := broker.Connect(ctx, options, logr.Discard())
	if err != nil {
		return Balance{}, fmt.Errorf("connect to NATS: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	backlog, err := conn.Backlog(ctx, "sap", routing.ConsumerName(namespace, subscription))
	if err != nil {
		return Balance{}, fmt.Errorf("read the backlog of %s: %w", subscription, err)
	}
	dead, err := conn.DeadLetters(ctx, types.NamespacedName{Namespace: namespace, Name: subscription})
	if err != nil {
		return Balance{}, fmt.Errorf("count dead letters of %s: %w", subscription, err)
	}
	return Balance{Pending: backlog.Total(), DeadLetters: dead}, nil
}

// CrashNATS kills the servers until the kubelet waits before it starts them again, so that NATS is away for ten
// seconds or more while its storage stays.
func (c *Cluster) CrashNATS(ctx context.Context) error {
	for range 5 {
		pods, err := c.PodsOf(ctx, "nats")
		if err != nil {
			return err
		}
		for i := range pods {
			if err := c.KillPod(ctx, &pods[i]); err != nil {
				return err
			}
		}
		err = Await(ctx, 5*time.Second, "NATS to be back", func(ctx context.Context) (bool, error) {
			back, err := c.PodsOf(ctx, "nats")
			return len(back) == len(pods), err
		})
		if err != nil {
			return nil //nolint:nilerr // it did not come back at once: that is what we want
		}
	}
	return errors.New("NATS came back at once after five crashes")
}
