package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Forward opens a port of a pod on loopback until ctx ends, and returns the local port.
func (c *Cluster) Forward(ctx context.Context, pod *corev1.Pod, port int) (uint16, error) {
	transport, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		return 0, fmt.Errorf("make a transport: %w", err)
	}
	url := c.Kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)},
		ctx.Done(), ready, io.Discard, io.Discard)
	if err != nil {
		return 0, fmt.Errorf("forward port %d of %s: %w", port, pod.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return 0, errors.Join(fmt.Errorf("forward port %d of %s ended", port, pod.Name), err)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return 0, fmt.Errorf("forward port %d of %s: %w", port, pod.Name, err)
	}
	return ports[0].Local, nil
}
