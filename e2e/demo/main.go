// Command demo plays samples/orders on the cluster that KUBECONFIG names: it publishes an order while all three
// Functions sleep, follows it through the chain, and prints when each thing happened on each hop.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
)

func main() {
	orders := flag.Int("orders", 3, "how many orders to publish, each when all Functions sleep again")
	folder := flag.String("sample", "samples/orders", "folder of the sample")
	keep := flag.Bool("keep", false, "leave the sample in the cluster")
	flag.Parse()
	framework.Main("demo", func(ctx context.Context) error { return run(ctx, *orders, *folder, *keep) })
}

func run(ctx context.Context, orders int, folder string, keep bool) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	chain := framework.Orders(folder)
	if !keep {
		defer func() { _ = cluster.DeleteNamespace(context.WithoutCancel(ctx), chain.Namespace) }()
	}
	fmt.Println("applying the order chain and waiting until its Functions sleep ...")
	if err := chain.Start(ctx, cluster); err != nil {
		return err
	}
	observer, err := observe(ctx, cluster, chain)
	if err != nil {
		return err
	}
	var wakes []time.Duration
	lost := 0
	for n := range orders {
		order := fmt.Sprintf("order-%d-%d", time.Now().Unix(), n+1)
		hops, err := play(ctx, cluster, chain, observer, order)
		if err != nil {
			return err
		}
		printTimeline(os.Stdout, order, hops)
		for _, hop := range hops {
			if hop.firstByte.IsZero() {
				lost++
				continue
			}
			wakes = append(wakes, hop.firstByte.Sub(hop.published))
		}
	}
	for _, function := range chain.Functions {
		balance, err := cluster.Balance(ctx, chain.Namespace, function)
		if err != nil {
			return err
		}
		lost += int(balance.Pending + balance.DeadLetters)
	}
	if lost > 0 {
		return fmt.Errorf("%d events did not arrive", lost)
	}
	fmt.Printf("demo ok: events=%d lost=%d wake_to_first_byte_p50_ms=%d\n",
		orders*len(chain.Functions), lost, framework.Percentile(wakes, 50).Milliseconds())
	return nil
}

// play publishes one order and returns its hops when everything sleeps again.
func play(ctx context.Context, cluster *framework.Cluster, chain framework.Chain, o *observer, order string) ([]hop, error) {
	o.begin()
	if err := chain.PublishOrder(ctx, cluster, order); err != nil {
		return nil, err
	}
	last := chain.Functions[len(chain.Functions)-1]
	err := framework.Await(ctx, 2*time.Minute, "the order to reach "+last, func(context.Context) (bool, error) {
		return !o.hop(last).acked.IsZero(), nil
	})
	if err != nil {
		return nil, err
	}
	if err := chain.AwaitAsleep(ctx, cluster); err != nil {
		return nil, err
	}
	hops := make([]hop, 0, len(chain.Functions))
	for _, function := range chain.Functions {
		hops = append(hops, o.hop(function))
	}
	return hops, nil
}
