package apirules

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/controller/activator"
	"github.com/rouse-run/rouse/internal/apirule"
)

const (
	// askTimeout is how long a gateway may take to say what it has loaded.
	askTimeout = 5 * time.Second
	// maxReport bounds that: 10,000 APIRules need about 1 MiB.
	maxReport = 16 << 20
	maxHeader = 8 << 10
)

// caller asks gateways over HTTP.
type caller struct{ client *http.Client }

func newCaller(dial activator.Dial) *caller {
	return &caller{client: &http.Client{
		Transport:     &http.Transport{DialContext: dial, MaxResponseHeaderBytes: maxHeader, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 1},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Loaded asks what a gateway has loaded.
func (c *caller) Loaded(ctx context.Context, address string) (apirule.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	report, err := c.get(ctx, net.JoinHostPort(address, strconv.Itoa(activator.GatewayPort)))
	if err != nil {
		return apirule.Report{}, fmt.Errorf("ask gateway %s for its APIRules: %w", address, err)
	}
	return report, nil
}

func (c *caller) get(ctx context.Context, host string) (report apirule.Report, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+apirule.ReportPath, nil)
	if err != nil {
		return report, err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return report, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return report, fmt.Errorf("it answers with status %d", response.StatusCode)
	}
	err = json.NewDecoder(io.LimitReader(response.Body, maxReport)).Decode(&report)
	return report, err
}
