package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Outside is a client that comes through the Gateway of features' APIRules, at the address that its status has.
type Outside struct {
	address string // host and port
	domain  string
	client  *http.Client
}

// Outside finds the Gateway. Its first listener decides.
func (c *Cluster) Outside(ctx context.Context) (*Outside, error) {
	gateway, err := c.object(ctx, gatewayNamespace, gatewayGVK, gatewayName)
	if err != nil {
		return nil, fmt.Errorf(`find a way in (bring the cluster up with "go run -C e2e/cluster . up --envoy-gateway"): %w`, err)
	}
	address, domain, err := entryOf(gateway)
	if err != nil {
		return nil, fmt.Errorf("read the Gateway %s/%s: %w", gatewayNamespace, gatewayName, err)
	}
	return &Outside{address: address, domain: domain, client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}, nil
}

func entryOf(gateway *unstructured.Unstructured) (address, domain string, err error) {
	first := func(fields ...string) map[string]any {
		list, _, _ := unstructured.NestedSlice(gateway.Object, fields...)
		if len(list) == 0 {
			return nil
		}
		item, _ := list[0].(map[string]any)
		return item
	}
	host, _, _ := unstructured.NestedString(first("status", "addresses"), "value")
	port, _, _ := unstructured.NestedInt64(first("spec", "listeners"), "port")
	hostname, _, _ := unstructured.NestedString(first("spec", "listeners"), "hostname")
	domain, wildcard := strings.CutPrefix(hostname, "*.")
	if host == "" || port == 0 || !wildcard {
		return "", "", errors.New("it needs an address in its status, and a first listener with a port and a hostname like *.example.com")
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10)), domain, nil
}

// Get asks the host with that label at the Gateway. An empty token is none.
func (o *Outside) Get(ctx context.Context, label, token string) (status int, answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.address+"/", nil)
	if err != nil {
		return 0, "", fmt.Errorf("make a request: %w", err)
	}
	request.Host = label + "." + o.domain
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := o.client.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("ask %s at %s: %w", request.Host, o.address, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return 0, "", fmt.Errorf("read what %s answers: %w", request.Host, err)
	}
	return response.StatusCode, string(body), nil
}

// AwaitStatus asks without a token until the answer has the status: an implementation of Gateway API says that it has accepted a
// route before its proxies know it.
func (o *Outside) AwaitStatus(ctx context.Context, label string, want int, timeout time.Duration) error {
	what := fmt.Sprintf("%s to answer %d", label, want)
	return Await(ctx, timeout, what, func(ctx context.Context) (bool, error) {
		status, answer, err := o.Get(ctx, label, "")
		if err == nil && status != want {
			err = fmt.Errorf("it answers %d: %s", status, answer)
		}
		return err == nil, err
	})
}
