// Command network-policies enforces NetworkPolicies on one node of the local cluster. The kernel gives it the first packet of each
// connection from or to a pod of the node (NFQUEUE); what policies say of it the matcher of Cyclonus decides, by which implementations of
// NetworkPolicies are tested. Without an answer the kernel drops the packet.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "with which to watch pods, namespaces and NetworkPolicies")
	pods := flag.String("pods", "", "addresses of the node's pods (CIDR)")
	health := flag.String("health-address", "", "where to say whether policies are enforced (/healthz)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *kubeconfig, *pods, *health)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "network-policies:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, pods, health string) error {
	known, err := watch(ctx, kubeconfig)
	if err != nil {
		return err
	}
	queue, err := openQueue()
	if err != nil {
		return err
	}
	// Only now is there somebody to answer.
	if err := writeRules(ctx, pods); err != nil {
		return err
	}
	fmt.Println("network-policies: enforcing on", pods)
	ended := make(chan error, 2)
	go func() { ended <- queue.serve(known) }()
	go func() { ended <- serveHealth(health) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

func serveHealth(address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return (&http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Second}).ListenAndServe()
}
