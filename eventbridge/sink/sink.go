package sink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/endpoint"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/routing"
)

// Target is the receiver of one Subscription's events.
type Target struct {
	URL      string               // as written in the Subscription
	Service  types.NamespacedName // what the URL's host stands for
	Port     int32                // of the Service
	External bool                 // outside the cluster, at the address of the URL's host
	Timeout  time.Duration        // of one delivery; 0 leaves it to the options
}

// Sink sends events to one Target.
type Sink struct {
	target    Target
	url       *url.URL
	login     []string // for the Authorization header; nil for none
	opening   string   // of a request
	network   *Network
	endpoints Endpoints
	gate      *endpoint.Gate
	pods      *endpoint.Pool[*pod] // nil for an external sink
	service   bool                 // events go to the Service, which leads only to pods that are ready
	budget    Budget
	transport *http.Transport
	log       logr.Logger
}

// maxReroutes is how many addresses one Send tries when connections are refused.
const maxReroutes = 4

// New makes a Sink; its gate is closed until Run knows an address. That of an external sink is open.
func New(target Target, deps Deps) (*Sink, error) {
	if deps.Network.problem != nil {
		return nil, deps.Network.problem
	}
	u, err := url.Parse(target.URL)
	if err != nil {
		return nil, fmt.Errorf("parse sink: %w", err)
	}
	if target.Timeout <= 0 {
		target.Timeout = deps.Network.options.Timeout
	}
	s := &Sink{
		target: target, url: u, login: loginOf(u), network: deps.Network, endpoints: deps.Endpoints,
		service: deps.Network.options.Endpoints == EndpointsService,
		budget:  deps.Budget, log: deps.Log,
	}
	s.opening = openingOf(u.RequestURI(), u.Host)
	s.transport = s.chooseTransport()
	if target.External {
		s.gate = endpoint.NewGate(true)
	} else {
		s.pods = newPods(u, deps)
		s.gate = s.pods.Gate()
	}
	show(deps.Openness, target.External)
	return s, nil
}

// chooseTransport returns the transport to the sink. Connections with TLS to pods are the sink's own, because a pod's
// address does not say which name its server has to prove.
func (s *Sink) chooseTransport() *http.Transport {
	switch {
	case s.target.External || s.service:
		return s.network.hosts
	case s.url.Scheme == "https":
		return s.network.transport(neverPod, s.url.Hostname())
	default:
		return s.network.pods
	}
}

// Gate is open while the sink can be reached.
func (s *Sink) Gate() *endpoint.Gate { return s.gate }

// Run keeps the gate until ctx ends or the endpoints cannot be watched.
func (s *Sink) Run(ctx context.Context) error {
	if s.target.External {
		<-ctx.Done()
		return nil
	}
	stop := s.pods.Dial(ctx)
	defer s.pods.Each((*pod).closeIdle)
	defer stop()
	if s.transport != s.network.pods && s.transport != s.network.hosts {
		defer s.transport.CloseIdleConnections()
	}
	if err := s.endpoints.Watch(ctx, s.target.Service, s.target.Port, s.pods.Apply); err != nil && ctx.Err() == nil {
		return fmt.Errorf("watch endpoints of %s: %w", s.target.Service, err)
	}
	return nil
}

// Send implements dispatch.Sink. No watch reports when an external sink is back, so what it refuses is an attempt.
func (s *Sink) Send(ctx context.Context, ev *cloudevent.Event) (dispatch.Answer, error) {
	if s.target.External {
		answer, err := s.post(ctx, s.url, ev)
		if errors.Is(err, errNeverSink) {
			s.log.Info("the sink's host leads to an address that is never a sink", "sink", routing.ShownSink(s.target.URL), "reason", err.Error())
		}
		return answer, err
	}
	for range maxReroutes {
		m := s.pods.Pick()
		if m == nil {
			break
		}
		answer, err := s.sendTo(ctx, m, ev)
		if err == nil || !notConnected(err) || ctx.Err() != nil {
			return answer, err
		}
		if !s.service { // which says nothing about one of its pods
			s.pods.Refuse(m)
		}
	}
	return dispatch.Answer{}, dispatch.ErrSinkGone
}

func (s *Sink) sendTo(ctx context.Context, m *endpoint.Member[*pod], ev *cloudevent.Event) (dispatch.Answer, error) {
	defer s.pods.Done(m)
	switch {
	case s.service:
		return s.post(ctx, s.url, ev)
	case s.url.Scheme == "http" && len(ev.Data) <= maxDirect:
		return s.direct(ctx, m.Value, ev)
	default:
		return s.post(ctx, &m.Value.url, ev)
	}
}

// post sends by net/http.
func (s *Sink) post(ctx context.Context, to *url.URL, ev *cloudevent.Event) (dispatch.Answer, error) {
	deadline := time.Now().Add(s.target.Timeout)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var started atomic.Int64 // the callback may still run when the answer is there
	var head httplimit.HeadAccount
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { head.Picked(info.Conn) }}
	if s.log.V(1).Enabled() { // it shows when a request was written; to know it costs more than a guess
		trace.WroteHeaders = func() { started.Store(time.Now().UnixNano()) }
	} else {
		started.Store(time.Now().UnixNano())
	}
	ctx = httptrace.WithClientTrace(ctx, trace)
	if s.url.Scheme == "https" {
		ctx = context.WithValue(ctx, callKey{}, s.replies(deadline))
	}
	resp, err := s.transport.RoundTrip(s.newRequest(ctx, to, ev)) // which follows no redirect
	var answer dispatch.Answer
	if err == nil {
		answer, _, err = readAnswer(ctx, resp, s.replies(deadline))
		_ = resp.Body.Close()
	} else if refused := head.Refused(); refused != nil {
		err = refused
	}
	if at := started.Load(); at > 0 {
		answer.Started = time.Unix(0, at)
	}
	return answer, err
}

// replies are read until the deadline of their call.
func (s *Sink) replies(deadline time.Time) replyReader {
	return replyReader{most: s.network.options.MaxReplySize, budget: s.budget, until: deadline}
}

// notConnected reports whether connecting failed, and not a request whose event may have been read.
func notConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
