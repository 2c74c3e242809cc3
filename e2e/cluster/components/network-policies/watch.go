package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// knowledge is the latest snapshot.
type knowledge struct{ latest atomic.Pointer[snapshot] }

func (k *knowledge) allows(first packet) bool { return k.latest.Load().allows(first) }

// watch follows the cluster from its first complete snapshot on.
func watch(ctx context.Context, kubeconfig string) (*knowledge, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // one waits already
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
	}
	for _, informer := range []cache.SharedIndexInformer{pods.Informer(), namespaces.Informer(), policies.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	factory.Start(ctx.Done())
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, synced := range factory.WaitForCacheSync(limited.Done()) {
		if !synced {
			return nil, errors.New("the API server did not list pods, namespaces and NetworkPolicies within a minute")
		}
	}
	known := &knowledge{}
	refresh := func() error {
		p, podsErr := pods.Lister().List(labels.Everything())
		n, namespacesErr := namespaces.Lister().List(labels.Everything())
		r, policiesErr := policies.Lister().List(labels.Everything())
		if err := errors.Join(podsErr, namespacesErr, policiesErr); err != nil {
			return err
		}
		known.latest.Store(newSnapshot(p, n, r))
		return nil
	}
	if err := refresh(); err != nil {
		return nil, err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				_ = refresh() // a cache answers always
			}
		}
	}()
	return known, nil
}
