package target

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // what client-go's SPDY dialer still returns
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/rouse-run/rouse/cli/exit"
)

const loopback = "127.0.0.1"

// forward is a port of a pod on loopback.
type forward struct {
	url   string
	stop  chan struct{}
	ended chan error
}

func (f *forward) close() {
	close(f.stop)
	<-f.ended //nolint:errcheck // why it ended does not matter any more
}

// forwardTo opens a port of a pod, once.
func (c *cluster) forwardTo(ctx context.Context, namespace, pod string, port int32) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%s/%s:%d", namespace, pod, port)
	if f, open := c.forwards[key]; open {
		return f.url, nil
	}
	f, err := c.newForward(ctx, namespace, pod, port)
	if err != nil {
		return "", err
	}
	c.forwards[key] = f
	return f.url, nil
}

func (c *cluster) newForward(ctx context.Context, namespace, pod string, port int32) (*forward, error) {
	dialer, err := c.dialer(namespace, pod)
	if err != nil {
		return nil, err
	}
	f := &forward{stop: make(chan struct{}), ended: make(chan error, 1)}
	ready := make(chan struct{})
	ports := []string{"0:" + strconv.Itoa(int(port))}
	forwarder, err := portforward.NewOnAddresses(dialer, []string{loopback}, ports, f.stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, fmt.Errorf("forward a port of pod %s: %w", pod, err)
	}
	go func() { f.ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-f.ended:
		return nil, c.explainForward(err, namespace, pod)
	case <-ctx.Done():
		f.close()
		return nil, ctx.Err()
	}
	open, err := forwarder.GetPorts()
	if err != nil {
		f.close()
		return nil, fmt.Errorf("forward a port of pod %s: %w", pod, err)
	}
	f.url = fmt.Sprintf("http://%s:%d", loopback, open[0].Local)
	return f, nil
}

// dialer speaks WebSocket, and SPDY with API servers and proxies that know no other.
func (c *cluster) dialer(namespace, pod string) (httpstream.Dialer, error) {
	base, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	address := base.JoinPath("api/v1/namespaces", namespace, "pods", pod, "portforward")
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, address)
	first, err := portforward.NewSPDYOverWebsocketDialer(address, c.config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	return portforward.NewFallbackDialer(first, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// explainForward knows the API server's refusal by its text: what upgrades a connection has no other error.
func (c *cluster) explainForward(err error, namespace, pod string) error {
	if err == nil {
		return exit.Errorf(exit.Unreachable, "the connection to pod %s ended", pod)
	}
	if strings.Contains(err.Error(), "forbidden") {
		return exit.Errorf(exit.Unreachable, "you may not create pods/portforward in namespace %s: ask for a role with that verb in %s", namespace, c.name)
	}
	return exit.Errorf(exit.Unreachable, "forward a port of pod %s/%s: %w", namespace, pod, err)
}
