package sink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/endpoint"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/routing"
)

// Target is the receiver of one Subscription's events.
type Target struct {
	URL      string               // as written in the Subscription
	Service  types.NamespacedName // the Service of the URL's host
	Port     int32                // of the Service
	External bool                 // outside the cluster, at the address of the URL's host
	Timeout  time.Duration        // of one delivery; 0 leaves it to the options
	Signer   Signer               // nil: deliveries are not signed
}

// Signer signs deliveries.
type Signer interface {
	// Sign sets the headers that prove who has sent a body. All attempts to deliver an event have the same id.
	Sign(header http.Header, id string, at time.Time, body []byte)
}

// Endpoints watches the addresses of a Service.
type Endpoints interface {
	// Watch calls apply with all endpoints of the Service's port, ready or not, at once and after each change, one call
	// at a time, until ctx ends.
	Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error
}

// Deps are the dependencies of a Sink.
type Deps struct {
	Network     *Network
	Endpoints   Endpoints       // not used for an external sink
	OnGate      func(open bool) // called when the gate opens or closes; may be nil
	ReplyMemory MemoryBudget    // for large replies; nil for no bound
	Log         logr.Logger
}

// Sink sends events to one Target. It implements dispatch.Sink.
type Sink struct {
	target    Target
	url       *url.URL
	login     []string // value of the Authorization header; nil for none
	opening   string   // start of a request
	network   *Network
	endpoints Endpoints
	gate      *endpoint.Gate
	pods      *endpoint.Pool[*pod] // nil for an external sink
	service   bool                 // events go to the Service's address, which routes only to ready pods
	memory    MemoryBudget
	transport *http.Transport
	log       logr.Logger
}

// maxReroutes bounds how many addresses one Send tries when connections are refused.
const maxReroutes = 4

// New returns a Sink. Its gate is closed until Run has an address; the gate of an external sink is open.
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
		memory:  deps.ReplyMemory, log: deps.Log,
	}
	s.opening = openingOf(u.RequestURI(), u.Host)
	s.transport = s.chooseTransport()
	if target.External {
		s.gate = endpoint.NewGate(true)
	} else {
		s.pods = newPods(u, deps)
		s.gate = s.pods.Gate()
	}
	if deps.OnGate != nil {
		deps.OnGate(target.External)
	}
	return s, nil
}

// chooseTransport returns the transport to the sink. TLS connections to pods are the sink's own, because the pod's
// address does not tell which name its certificate must have.
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

// Gate returns the gate, which is open while the sink is reachable.
func (s *Sink) Gate() *endpoint.Gate { return s.gate }

// Run watches the endpoints until ctx ends or the watch fails.
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

// Send implements dispatch.Sink. No watch reports when an external sink is back, so a refused connection counts as an
// attempt.
func (s *Sink) Send(ctx context.Context, ev *cloudevent.Event) (dispatch.Answer, error) {
	if s.target.External {
		answer, err := s.post(ctx, s.url, ev)
		if errors.Is(err, errNeverSink) {
			s.log.Info("the sink's host resolves to an address that is not allowed as a sink", "sink", routing.ShownSink(s.target.URL), "reason", err.Error())
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
		if !s.service { // the Service's address is not one of its pods
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
	case s.url.Scheme == "http" && len(ev.Data) <= maxDirect && s.target.Signer == nil:
		return s.direct(ctx, m.Value, ev)
	default:
		return s.post(ctx, &m.Value.url, ev)
	}
}

// post sends the event by net/http.
func (s *Sink) post(ctx context.Context, to *url.URL, ev *cloudevent.Event) (dispatch.Answer, error) {
	deadline := time.Now().Add(s.target.Timeout)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var started atomic.Int64 // the callback may still run when the response arrives
	var head httplimit.HeadAccount
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { head.Picked(info.Conn) }}
	if s.log.V(1).Enabled() { // the exact time of sending is needed only for logs, and costs more than a guess
		trace.WroteHeaders = func() { started.Store(time.Now().UnixNano()) }
	} else {
		started.Store(time.Now().UnixNano())
	}
	ctx = httptrace.WithClientTrace(ctx, trace)
	if s.url.Scheme == "https" {
		ctx = context.WithValue(ctx, callKey{}, s.replies(deadline))
	}
	resp, err := s.transport.RoundTrip(s.newRequest(ctx, to, ev)) // it follows no redirect
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

// replies returns a reader of replies until the deadline of their call.
func (s *Sink) replies(deadline time.Time) replyReader {
	return replyReader{most: s.network.options.MaxReplySize, memory: s.memory, until: deadline}
}

// notConnected reports whether err is a failure to connect, so that no server has read the event.
func notConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// Ways to reach a Service.
const (
	// EndpointsPods sends to pods directly.
	EndpointsPods = "pods"
	// EndpointsService sends to the Service's address and leaves the choice of the pod to the network, as meshes
	// require.
	EndpointsService = "service"
)

// maxReplySize is the largest message that NATS accepts.
const maxReplySize = 64 << 20

// Options bounds calls of sinks.
type Options struct {
	Timeout       time.Duration // one delivery, from connecting to the end of the answer
	DialTimeout   time.Duration // one connection attempt of a delivery
	ProbeInterval time.Duration // between connection attempts to an address that is not up yet
	Endpoints     string        // EndpointsPods or EndpointsService
	CAFile        string        // certificates trusted in addition to the system's; empty for none
	MaxReplySize  int64         // bytes of an event in a sink's answer
}

// DefaultOptions gives handlers three minutes.
func DefaultOptions() Options {
	return Options{
		Timeout:       190 * time.Second,
		DialTimeout:   2 * time.Second,
		ProbeInterval: 25 * time.Millisecond,
		Endpoints:     EndpointsPods,
		MaxReplySize:  1 << 20,
	}
}

// Flags declares the --sink-* flags and --max-reply-size.
func (o *Options) Flags(fs *flags.Set) {
	fs.Duration(&o.Timeout, "sink-timeout", "how long a sink may take to answer").MoreThan(0)
	fs.Duration(&o.DialTimeout, "sink-dial-timeout", "how long connecting to a sink may take").MoreThan(0)
	fs.Duration(&o.ProbeInterval, "sink-probe-interval",
		"how often a starting Function is dialled until it accepts a connection").AtLeast(time.Millisecond)
	fs.String(&o.Endpoints, "sink-endpoints",
		"where events are sent: pods (straight to the least loaded), or service (to the Service's own address, for a mesh)").
		OneOf(EndpointsPods, EndpointsService)
	fs.String(&o.CAFile, "sink-ca", "file with CA certificates that are trusted for sinks in addition to the system's")
	fs.Check(func() error {
		_, err := trusted(o.CAFile)
		return err
	})
	fs.Int64(&o.MaxReplySize, "max-reply-size", "largest event in bytes that a sink may answer with").Between(1, maxReplySize)
}

// pod is an address of a sink with its idle connections.
type pod struct {
	url  url.URL // of the sink at this address
	idle *endpoint.Idle[*podConn]
}

// closeIdle closes the idle connections. Connections to removed addresses expire.
func (p *pod) closeIdle() { p.idle.Close() }

// newPods returns the pool of a sink's addresses.
func newPods(sink *url.URL, deps Deps) *endpoint.Pool[*pod] {
	options, onGate, log := deps.Network.options, deps.OnGate, deps.Log
	return endpoint.NewPool(endpoint.Options[*pod]{
		Value: func(address string) *pod {
			p := &pod{url: *sink, idle: endpoint.NewIdle[*podConn](maxIdle, nil)}
			p.url.Host = address
			return p
		},
		OnGate: func(change endpoint.Change) {
			report(sink, change, log)
			if onGate != nil {
				onGate(change.Open)
			}
		},
		AwaitReady:   options.Endpoints == EndpointsService,
		DialInterval: options.ProbeInterval,
		Dialer:       deps.Network.prober,
	})
}

// report logs that the gate opened or closed.
func report(sink *url.URL, change endpoint.Change, log logr.Logger) {
	shown := routing.ShownSink(sink.String())
	if change.Open {
		log.Info("gate opened", "sink", shown, "address", change.Address, "waited", change.Waited.String(), "closedFor", change.Lasted.String())
	} else {
		log.Info("gate closed", "sink", shown, "address", change.Address, "openFor", change.Lasted.String())
	}
}

// headers is the number of headers of a usual event.
const headers = 12

// via tells the runtime of a Function that the bridge counts the call too.
var via = []string{activation.ViaEventbridge}

// newRequest returns the event as a request with the sink's Host header, addressed to url: in binary mode, or signed.
func (s *Sink) newRequest(ctx context.Context, to *url.URL, ev *cloudevent.Event) *http.Request {
	req := (&http.Request{
		Method: http.MethodPost, URL: to, Host: s.url.Host, Header: make(http.Header, headers),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	ev.SetHeader(req.Header)
	tracecontext.Inject(req.Header)
	body := ev.Data
	if s.target.Signer != nil {
		body = s.sign(req, ev)
	}
	if s.login != nil {
		req.Header["Authorization"] = s.login
	}
	if !s.target.External {
		req.Header[activation.HeaderVia] = via
	}
	if len(body) == 0 {
		return req
	}
	req.ContentLength = int64(len(body))
	req.Body = io.NopCloser(bytes.NewReader(body)) // net/http recognizes it, and writes it together with the header
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return req
}

// sign puts the whole event into the body, since a signature does not cover headers, and returns it.
func (s *Sink) sign(req *http.Request, ev *cloudevent.Event) []byte {
	for name := range req.Header {
		if strings.HasPrefix(name, "Ce-") {
			delete(req.Header, name)
		}
	}
	body := ev.AppendStructured(make([]byte, 0, len(ev.Data)+structuredOverhead))
	req.Header["Content-Type"] = []string{structuredType}
	s.target.Signer.Sign(req.Header, deliveryID(ev), time.Now(), body)
	return body
}

// structuredOverhead is about what the attributes of an event take as JSON.
const structuredOverhead = 512

// deliveryID is the same for each attempt, and another one for each event: ids are unique for their source alone.
func deliveryID(ev *cloudevent.Event) string {
	sum := sha256.Sum256([]byte(ev.Source + "\n" + ev.ID))
	const bytes = 16
	return "evt_" + hex.EncodeToString(sum[:bytes])
}

// loginOf returns the Authorization header for the user and password in the URL.
func loginOf(sink *url.URL) []string {
	if sink.User == nil {
		return nil
	}
	password, _ := sink.User.Password()
	return []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(sink.User.Username()+":"+password))}
}
