package activator

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
)

const (
	// checkTimeout is how long an activator may take to say whose it is, and probeTimeout a gateway that it works.
	checkTimeout = time.Second
	probeTimeout = 500 * time.Millisecond
	// maxChecks bounds the activators that are asked at a time.
	maxChecks = 64
	// maxHeader bounds the header of an answer. The body is not read.
	maxHeader = 8 << 10
)

// Dial opens connections to gateways.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// caller asks activators and gateways over HTTP.
type caller struct {
	client *http.Client
	checks chan struct{}
}

func newCaller(dial Dial) *caller {
	return &caller{
		client: &http.Client{
			Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		checks: make(chan struct{}, maxChecks),
	}
}

// FunctionAt asks whose activator listens there.
func (c *caller) FunctionAt(ctx context.Context, address string, port int32) (types.UID, error) {
	select {
	case c.checks <- struct{}{}:
		defer func() { <-c.checks }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	header, err := c.get(ctx, address, port, checkTimeout)
	return types.UID(header.Get(activation.HeaderFunction)), err
}

// Works asks whether a gateway works.
func (c *caller) Works(ctx context.Context, address string) error {
	_, err := c.get(ctx, address, GatewayPort, probeTimeout)
	return err
}

func (c *caller) get(ctx context.Context, address string, port int32, timeout time.Duration) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	host := net.JoinHostPort(address, strconv.Itoa(int(port)))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/healthz", nil)
	if err != nil {
		return nil, fmt.Errorf("ask gateway %s: %w", host, err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask gateway %s: %w", host, err)
	}
	if err := response.Body.Close(); err != nil {
		return nil, fmt.Errorf("ask gateway %s: %w", host, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask gateway %s: it answers with status %d", host, response.StatusCode)
	}
	return response.Header, nil
}
