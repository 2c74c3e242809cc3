// Command network-policies enforces NetworkPolicies on one node of the local cluster. It receives the first packet of
// each connection from or to a pod of the node from the kernel (NFQUEUE). The matcher of Cyclonus, a test tool for
// implementations of NetworkPolicies, evaluates the policies. Without a verdict the kernel drops the packet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
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
	// The queue is served from here on.
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

// knowledge is the latest snapshot of the informers' caches.
type knowledge struct {
	factory informers.SharedInformerFactory
	changed chan struct{}
	latest  atomic.Pointer[snapshot]
}

func (k *knowledge) allows(first packet) bool { return k.latest.Load().allows(first) }

// watch follows the cluster, and returns after its first complete snapshot.
func watch(ctx context.Context, kubeconfig string) (*knowledge, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	known := &knowledge{factory: informers.NewSharedInformerFactory(client, 0), changed: make(chan struct{}, 1)}
	if err := errors.Join(known.begin(ctx), known.refresh()); err != nil {
		return nil, err
	}
	go known.follow(ctx)
	return known, nil
}

// begin returns when the caches are in sync.
func (k *knowledge) begin(ctx context.Context) error {
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { k.notify() }, UpdateFunc: func(any, any) { k.notify() }, DeleteFunc: func(any) { k.notify() },
	}
	for _, informer := range []cache.SharedIndexInformer{
		k.factory.Core().V1().Pods().Informer(), k.factory.Core().V1().Namespaces().Informer(), k.factory.Networking().V1().NetworkPolicies().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	k.factory.Start(ctx.Done())
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, synced := range k.factory.WaitForCacheSync(limited.Done()) {
		if !synced {
			return errors.New("the API server did not list pods, namespaces and NetworkPolicies within a minute")
		}
	}
	return nil
}

func (k *knowledge) notify() {
	select {
	case k.changed <- struct{}{}:
	default: // one is pending
	}
}

func (k *knowledge) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.changed:
			_ = k.refresh() // reading a cache does not fail
		}
	}
}

func (k *knowledge) refresh() error {
	pods, podsErr := k.factory.Core().V1().Pods().Lister().List(labels.Everything())
	namespaces, namespacesErr := k.factory.Core().V1().Namespaces().Lister().List(labels.Everything())
	policies, policiesErr := k.factory.Networking().V1().NetworkPolicies().Lister().List(labels.Everything())
	if err := errors.Join(podsErr, namespacesErr, policiesErr); err != nil {
		return err
	}
	k.latest.Store(newSnapshot(pods, namespaces, policies))
	return nil
}
