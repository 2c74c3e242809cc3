package httpload

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// mostPods bounds how many pods of one Function are asked, and atATime how many of them together.
	mostPods = 1000
	atATime  = 32
	// podDialTimeout is less than answerTimeout, so that a pod that accepts no connection is told from one that does not answer.
	podDialTimeout = 250 * time.Millisecond
	answerTimeout  = 500 * time.Millisecond
	mostPodHeader  = 4 << 10
	mostBody       = 1 << 10
	// A connection outlasts the pauses between KEDA's polls.
	idleTimeout  = 30 * time.Second
	mostIdle     = 4096
	bufferSize   = 1 << 10
	userAgent    = "rouse-scaler"
	perNamespace = 64
)

// PodsOptions configure a Client.
type PodsOptions struct {
	// AllowLoopback is for tests, whose pods are servers of the same machine.
	AllowLoopback bool
}

// Pods asks pods. It may be used by any number of Functions at a time.
type Pods struct {
	http          *http.Client
	answerTimeout time.Duration
	namespaces    limits
}

// NewPods makes a Client.
func NewPods(o PodsOptions) *Pods { return newClient(o, podDialTimeout, answerTimeout) }

func newClient(o PodsOptions, dialTimeout, answerTimeout time.Duration) *Pods {
	return &Pods{answerTimeout: answerTimeout, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            dialguard.Guard{AllowLoopback: o.AllowLoopback}.Dialer(dialTimeout).DialContext,
			DisableCompression:     true,
			MaxResponseHeaderBytes: mostPodHeader,
			MaxIdleConns:           mostIdle,
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        idleTimeout,
			ReadBufferSize:         bufferSize,
			WriteBufferSize:        bufferSize,
		},
	}}
}

// Close ends the connections that are idle.
func (c *Pods) Close() { c.http.CloseIdleConnections() }

// Loads asks all endpoints of a Function but those that terminate, whose calls end without it. The answer has the load of
// each that accepts connections, by address. The first that cannot be asked is an error.
func (c *Pods) Loads(ctx context.Context, namespace string, endpoints []routing.Endpoint) (map[string]activation.PodLoad, error) {
	if len(endpoints) > mostPods {
		return nil, fmt.Errorf("more than %d pods", mostPods)
	}
	slots, release := c.namespaces.acquire(namespace)
	defer release()
	var mu sync.Mutex
	loads := make(map[string]activation.PodLoad, len(endpoints))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for _, endpoint := range endpoints {
		if endpoint.Terminating {
			continue
		}
		group.Go(func() error {
			load, err := c.askInTurn(ctx, slots, endpoint.Address)
			switch {
			case err == nil:
				mu.Lock()
				loads[endpoint.Address] = load
				mu.Unlock()
			case endpoint.Ready || !notAccepting(err):
				return fmt.Errorf("pod %s %w", endpoint.Address, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return loads, nil
}
