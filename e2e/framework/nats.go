package framework

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	server, err := c.natsServer(ctx)
	if err != nil {
		return Balance{}, err
	}
	port, err := c.Forward(ctx, server, 4222)
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

// natsServer is one that is ready: the chart's, or one of those beside it.
func (c *Cluster) natsServer(ctx context.Context) (*corev1.Pod, error) {
	beside := &corev1.PodList{}
	if err := c.List(ctx, beside, client.InNamespace("nats-system"), client.MatchingLabels{"app": "nats"}); err != nil {
		return nil, fmt.Errorf("list NATS servers: %w", err)
	}
	for _, pod := range beside.Items {
		if Ready(&pod) {
			return &pod, nil
		}
	}
	pods, err := c.PodsOf(ctx, "nats")
	if err != nil {
		return nil, err
	}
	return &pods[0], nil
}

// CrashNATS kills the servers until the kubelet waits before it starts them again, so that NATS is away for ten
// seconds or more while its storage stays.
func (c *Cluster) CrashNATS(ctx context.Context) error {
	return Await(ctx, time.Minute, "NATS to crash and stay away", func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.InNamespace(System), componentLabel("nats")); err != nil {
			return false, err
		}
		away := 0
		for _, pod := range pods.Items {
			for _, status := range pod.Status.ContainerStatuses {
				if waiting := status.State.Waiting; waiting != nil && waiting.Reason == "CrashLoopBackOff" {
					away++
				} else if err := killContainer(status.ContainerID); err != nil {
					return false, err
				}
			}
		}
		return away > 0 && away == len(pods.Items), nil
	})
}
