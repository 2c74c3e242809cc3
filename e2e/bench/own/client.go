package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/eventbridge/sink"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

const (
	timeout     = 190 * time.Second
	idleTimeout = 4 * time.Second
	maxIdle     = 4096
	maxHeader   = 16 << 10
	maxBody     = 64 << 10
)

// headers of requests are used again, as our own client does.
var headers = sync.Pool{New: func() any { return make(http.Header) }}

// clients send one event each to the same sink, as a bridge does to a pod: in binary mode, over connections that stay,
// until a deadline, and with a bound for the answer.
type clients struct {
	address string
	event   *cloudevent.Event

	own     *sink.Sink
	network *sink.Network
	nethttp *http.Transport
	fast    *fasthttp.HostClient
	stop    context.CancelFunc
	running *errgroup.Group
}

func newClients(ctx context.Context, address string) (*clients, error) {
	ev, err := cloudevent.FromStructured(stored())
	if err != nil {
		return nil, err
	}
	c := &clients{
		address: address, event: &ev,
		network: sink.NewNetwork(sink.DefaultOptions()),
		nethttp: &http.Transport{
			MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTimeout, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		},
		fast: &fasthttp.HostClient{
			Addr: address, MaxConns: maxIdle, MaxIdleConnDuration: idleTimeout, ConnPoolStrategy: fasthttp.LIFO,
			ReadBufferSize: maxHeader, MaxResponseBodySize: maxBody, MaxIdemponentCallAttempts: 1,
			NoDefaultUserAgentHeader: true, DisableHeaderNamesNormalizing: true, DisablePathNormalizing: true,
		},
	}
	c.own, err = sink.New(sink.Target{URL: "http://function.bench.svc.cluster.local/"}, sink.Deps{
		Network: c.network, Endpoints: loopback.NewEndpoints(loopback.Ready(address)), Log: logr.Discard(),
	})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	c.stop, c.running = stop, &errgroup.Group{}
	c.running.Go(func() error { return c.own.Run(running) })
	if _, err := c.own.Gate().Wait(ctx); err != nil {
		return nil, fmt.Errorf("await the sink: %w", err)
	}
	return c, nil
}

func (c *clients) close() {
	c.stop()
	_ = c.running.Wait()
	c.network.Close()
	c.nethttp.CloseIdleConnections()
	c.fast.CloseIdleConnections()
}

func (c *clients) group(events int) group {
	run := func(send func(context.Context) error) func(context.Context, int) error {
		return func(ctx context.Context, events int) error {
			return paced(ctx, events, perSecond, inFlight, func() error { return send(ctx) })
		}
	}
	return group{name: "client", events: events, variants: []variant{
		{"own", run(c.sendOwn)}, {"net/http", run(c.sendNetHTTP)}, {"fasthttp", run(c.sendFast)},
	}}
}

func (c *clients) sendOwn(ctx context.Context) error {
	answer, err := c.own.Send(ctx, c.event)
	if err != nil {
		return err
	}
	return expect(answer.Status)
}

// sendNetHTTP has no more around http.Transport than the deadline and what is read of an answer.
func (c *clients) sendNetHTTP(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/", bytes.NewReader(c.event.Data))
	if err != nil {
		return err
	}
	c.event.SetHeader(request.Header)
	response, err := c.nethttp.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxBody)); err != nil {
		return err
	}
	return expect(response.StatusCode)
}

// sendFast does without the context of the call, which fasthttp does not take.
func (c *clients) sendFast(context.Context) error {
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(request)
	defer fasthttp.ReleaseResponse(response)
	header := headers.Get().(http.Header)
	defer headers.Put(header)
	clear(header)
	c.event.SetHeader(header)
	for name, values := range header {
		request.Header.Set(name, values[0])
	}
	request.Header.SetMethod(http.MethodPost)
	request.Header.SetHost(c.address)
	request.SetRequestURI("/")
	request.SetBodyRaw(c.event.Data)
	if err := c.fast.DoDeadline(request, response, time.Now().Add(timeout)); err != nil {
		return err
	}
	return expect(response.StatusCode())
}

func expect(status int) error {
	if status != http.StatusNoContent {
		return fmt.Errorf("the sink answered %d", status)
	}
	return nil
}
