// Command http measures how long a request to a sleeping Function takes until the first byte of its answer, beside a bare scale of the
// same pod from 0 to 1 until its port accepts; what a warm Function carries through its Service with waking on, beside off; and what
// comes through the gateway and an APIRule, beside a plain reverse proxy.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/rig"
)

func main() {
	rounds := flag.Int("rounds", 20, "how many wakes and how many bare scale-ups")
	warm := flag.Int("warm-rounds", 10, "how many measurements of the warm Function with waking on, and as many with it off")
	alone := flag.Bool("gateway", false, "measure the gateway beside a reverse proxy and nothing else, which needs no cluster")
	flag.Parse()
	rig.Main(func(ctx context.Context, r *rig.Rig) error {
		if *alone {
			return gatewayAlone(ctx, r, *warm)
		}
		return run(ctx, r, *rounds, *warm)
	}, roles)
}

func gatewayAlone(ctx context.Context, r *rig.Rig, rounds int) error {
	b := &bench{}
	through, plain, err := b.outside(ctx, r, rounds)
	if err == nil {
		fmt.Printf("http gateway_ratio=%.2f errors=%d\n", through/plain, b.errors)
	}
	return err
}

func run(ctx context.Context, r *rig.Rig, rounds, warmRounds int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	namespace, err := cluster.CreateNamespace(ctx, "bench")
	if err != nil {
		return err
	}
	defer func() { _ = cluster.DeleteNamespace(context.WithoutCancel(ctx), namespace) }()

	b := &bench{cluster: cluster, namespace: namespace}
	fmt.Println("preparing a Function that sleeps, the same pod without Rouse, and a Function that is warm ...")
	if err := b.prepare(ctx); err != nil {
		return err
	}
	measured, err := b.wakes(ctx, rounds)
	if err != nil {
		return err
	}
	on, off, err := b.warm(ctx, warmRounds)
	if err != nil {
		return err
	}
	through, plain, err := b.outside(ctx, r, warmRounds)
	if err != nil {
		return err
	}
	measured.explain()
	p50, p95, bare := framework.Percentile(measured.wake, 50), framework.Percentile(measured.wake, 95), framework.Percentile(measured.accept, 50)
	fmt.Printf("http wake_p50_ms=%d wake_p95_ms=%d bare_accept_p50_ms=%d wake_ratio=%.2f warm_ratio=%.2f gateway_ratio=%.2f errors=%d\n",
		p50.Milliseconds(), p95.Milliseconds(), bare.Milliseconds(), float64(p50)/float64(bare), on/off, through/plain, b.errors)
	return nil
}
