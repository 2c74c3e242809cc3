package sink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Target is the receiver of one Subscription's events.
type Target struct {
	URL         string               // as written in the Subscription
	Service     types.NamespacedName // what the URL's host stands for
	Port        int32                // of the Service
	External    bool                 // outside the cluster, at the address of the URL's host
	MaxInFlight int                  // how many connections are worth keeping
}

// Deps are what a Sink works with.
type Deps struct {
	Endpoints Endpoints
	Openness  prometheus.Gauge // set to 1 while the gate is open; may be nil
	Log       logr.Logger
}

// Sink sends events to one Target.
type Sink struct {
	target    Target
	url       *url.URL
	endpoints Endpoints
	options   Options
	pool      *pool
	client    *http.Client
	transport *http.Transport
	precise   bool // somebody reads when a request was written; to know it costs more than a guess
}

const (
	idleTimeout = 4 * time.Second // less than the 5 s after which Node.js closes a connection under our hands
	maxReroutes = 4               // addresses that one Send tries when connections are refused
)

// New makes a Sink; its gate is closed until Run knows an address.
func New(target Target, deps Deps, options Options) (*Sink, error) {
	u, err := url.Parse(target.URL)
	if err != nil {
		return nil, fmt.Errorf("parse sink: %w", err)
	}
	transport := &http.Transport{
		DialContext:         dialer(target, options.DialTimeout).DialContext,
		TLSClientConfig:     &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: options.DialTimeout,
		MaxIdleConnsPerHost: max(target.MaxInFlight, 1),
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
	}
	endpoints := deps.Endpoints
	if target.External {
		endpoints = external(net.JoinHostPort(u.Hostname(), strconv.Itoa(int(target.Port))))
	}
	return &Sink{
		target:    target,
		url:       u,
		endpoints: endpoints,
		options:   options,
		pool:      newPool(deps.Openness, deps.Log.WithValues("sink", target.URL)),
		transport: transport,
		precise:   deps.Log.V(1).Enabled(),
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Gate is open while the sink can be reached.
func (s *Sink) Gate() *Gate { return s.pool.gate }

// Run keeps the gate until ctx ends or the endpoints cannot be watched.
func (s *Sink) Run(ctx context.Context) error {
	defer s.transport.CloseIdleConnections()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := s.endpoints.Watch(ctx, s.target.Service, s.target.Port, s.pool.apply); err != nil && ctx.Err() == nil {
			return fmt.Errorf("watch endpoints of %s: %w", s.target.Service, err)
		}
		return nil
	})
	group.Go(func() error {
		(&dialler{pool: s.pool, interval: s.options.ProbeInterval, dialer: dialer(s.target, s.probeTimeout())}).run(ctx)
		return nil
	})
	return group.Wait()
}

// probeTimeout leaves more time to a sink that is far away.
func (s *Sink) probeTimeout() time.Duration {
	if s.target.External {
		return s.options.DialTimeout
	}
	return probeTimeout
}

// Send implements dispatch.Sink.
func (s *Sink) Send(ctx context.Context, ev *cloudevent.Event) (dispatch.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	for range maxReroutes {
		address := s.pool.pick()
		if address == "" {
			break
		}
		answer, err := s.post(ctx, address, ev)
		if err == nil || !notConnected(err) || ctx.Err() != nil {
			return answer, err
		}
		s.pool.refuse(address)
	}
	return dispatch.Answer{}, dispatch.ErrSinkGone
}

func (s *Sink) post(ctx context.Context, address string, ev *cloudevent.Event) (dispatch.Answer, error) {
	var started atomic.Int64 // the callback may still run when Do has returned
	if s.precise {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { started.Store(time.Now().UnixNano()) }})
	} else {
		started.Store(time.Now().UnixNano())
	}
	resp, err := s.client.Do(newRequest(ctx, s.url, address, ev))
	var answer dispatch.Answer
	if err == nil {
		answer = readAnswer(resp, time.Now())
		_ = resp.Body.Close()
	}
	if at := started.Load(); at > 0 {
		answer.Started = time.Unix(0, at)
	}
	return answer, err
}

// notConnected tells errors of connecting from those after the event may have been read.
func notConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
