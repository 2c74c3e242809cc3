package sink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

const externalURL = "http://api.example.com/in"

// resolve leads each name to one address. It returns what was dialled last.
func resolve(s *Sink, address string) *atomic.Value {
	var dialled atomic.Value
	dial := func(ctx context.Context, network, name string) (net.Conn, error) {
		dialled.Store(name)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	s.network.hosts.DialContext, s.network.hosts.DialTLSContext = dial, s.network.secure(dial, "")
	return &dialled
}

func TestAnExternalSinkIsReachedAtItsOwnHost(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, nil)
	s := start(t, create(t, Target{URL: externalURL, Port: 80, External: true}, nil, DefaultOptions()))
	dialled := resolve(s, server.Address())
	require.True(t, s.Gate().IsOpen())

	answer, err := s.Send(t.Context(), order("1"))
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, answer.Status)
	require.Equal(t, "api.example.com:80", dialled.Load())
	require.Equal(t, "api.example.com", server.Requests()[0].Host)
	require.Equal(t, "/in", server.Requests()[0].URI)
	require.NotContains(t, server.Requests()[0].Header, "Rouse-Via")
}

func TestAnExternalSinkThatRefusesFailsAnAttempt(t *testing.T) {
	t.Parallel()
	s := start(t, create(t, Target{URL: externalURL, Port: 80, External: true}, nil, DefaultOptions()))
	resolve(s, loopback.Address(t))
	_, err := s.Send(t.Context(), order("1"))
	require.ErrorContains(t, err, "refused")
	require.NotErrorIs(t, err, dispatch.ErrSinkGone, "no watch would report when it is back")
	require.True(t, s.Gate().IsOpen())
}

func TestAnExternalSinkNeverLeadsToTheMachineItself(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, nil)
	_, port, err := net.SplitHostPort(server.Address())
	require.NoError(t, err)
	for _, host := range []string{"localhost", "127.0.0.1", "[::1]", "0.0.0.0", "169.254.169.254", "[fd00:ec2::254]"} {
		s := start(t, create(t, Target{URL: "http://" + host + ":" + port, External: true}, nil, DefaultOptions()))
		_, err = s.Send(t.Context(), order("1"))
		require.ErrorIs(t, err, errNeverSink, host)
		require.NotErrorIs(t, err, dispatch.ErrSinkGone, host)
	}
	require.Empty(t, server.Requests())
}

func TestAddressesAreJudgedWhenTheyAreDialled(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]struct{ host, pod bool }{
		"8.8.8.8:80": {host: true, pod: true}, "10.1.2.3:443": {host: true, pod: true}, "[2001:db8::1]:80": {host: true, pod: true},
		"127.0.0.1:80": {pod: true}, "[::1]:80": {pod: true},
		"169.254.169.254:80": {}, "[fe80::1%eth0]:80": {}, "[::ffff:169.254.169.254]:80": {}, "[fd00:ec2::254]:80": {},
		"224.0.0.1:80": {}, "0.0.0.0:80": {}, "odd": {},
	} {
		t.Run(strings.ReplaceAll(address, ":", "_"), func(t *testing.T) {
			t.Parallel()
			requireJudged(t, want.host, dialer(neverHost, 0).Control("tcp", address, nil))
			requireJudged(t, want.pod, dialer(neverPod, 0).Control("tcp", address, nil))
		})
	}
}

func requireJudged(t *testing.T, ok bool, err error) {
	t.Helper()
	if ok {
		require.NoError(t, err)
	} else {
		require.ErrorIs(t, err, errNeverSink)
	}
}

func TestAServiceIsReachedAtItsOwnAddressWhenItsPodsAreReady(t *testing.T) {
	t.Parallel()
	service, pod := loopback.StartSink(t, nil), loopback.StartSink(t, nil)
	options := DefaultOptions()
	options.Endpoints = EndpointsService
	endpoints := loopback.NewEndpoints(loopback.StartingSink(pod.Address()))
	s := create(t, Target{URL: sinkURL}, endpoints, options)
	dialled := resolve(s, service.Address())
	start(t, s)
	_, err := s.Send(t.Context(), order("0"))
	require.ErrorIs(t, err, dispatch.ErrSinkGone)

	endpoints.Set(loopback.Ready(pod.Address()))
	open(t, s)
	_, err = s.Send(t.Context(), order("1"))
	require.NoError(t, err)
	require.Equal(t, "price.shop.svc.cluster.local:8080", dialled.Load())
	require.Equal(t, "price.shop.svc.cluster.local:8080", service.Await(t, 1)[0].Host)
	require.Empty(t, pod.Requests())

	service.Stop()
	s.network.Close() // a connection that was kept would break first
	_, err = s.Send(t.Context(), order("2"))
	require.ErrorIs(t, err, dispatch.ErrSinkGone)
	require.True(t, s.Gate().IsOpen(), "a Service that refuses connections is not one of its pods")
}

// tlsServer proves to be example.com, to clients that trust the file.
func tlsServer(t *testing.T) (server *httptest.Server, caFile string) {
	t.Helper()
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(server.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(caFile, text, 0o600))
	return server, caFile
}

func TestAServerWithTLSProvesTheHostOfTheSink(t *testing.T) {
	t.Parallel()
	server, caFile := tlsServer(t)
	address := server.Listener.Addr().String()
	for name, tc := range map[string]struct {
		url      string
		external bool
		caFile   string
		wantErr  string
	}{
		"a pod":                              {url: "https://example.com/in", caFile: caFile},
		"an external host":                   {url: "https://example.com/in", caFile: caFile, external: true},
		"a pod with another's name":          {url: "https://example.org/in", caFile: caFile, wantErr: "example.org"},
		"an external host of another's name": {url: "https://example.org/in", caFile: caFile, external: true, wantErr: "example.org"},
		"a pod that is not trusted":          {url: "https://example.com/in", wantErr: "unknown authority"},
		"a host that is not trusted":         {url: "https://example.com/in", external: true, wantErr: "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			options.CAFile = tc.caFile
			s := create(t, Target{URL: tc.url, External: tc.external}, loopback.NewEndpoints(loopback.Ready(address)), options)
			resolve(s, address)
			start(t, s)
			open(t, s)
			answer, err := s.Send(t.Context(), order("1"))
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, http.StatusNoContent, answer.Status)
		})
	}
}

func TestCertificatesThatCannotBeReadAreRefused(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, file := range []string{empty, empty + ".none"} {
		options := DefaultOptions()
		options.CAFile = file
		require.ErrorContains(t, flags.Validate(&options), "--sink-ca")
		_, err := New(Target{URL: sinkURL}, Deps{Network: NewNetwork(options)})
		require.ErrorContains(t, err, "--sink-ca")
	}
}

func TestOptionsThatCannotWorkAreNamed(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	require.NoError(t, flags.Validate(&options))
	bad := Options{Endpoints: "nodes"}
	for _, flag := range []string{
		"--sink-timeout", "--sink-dial-timeout", "--sink-probe-interval", "--sink-endpoints", "--max-reply-size",
	} {
		require.ErrorContains(t, flags.Validate(&bad), flag)
	}
}

func TestALoginInTheURLIsSent(t *testing.T) {
	t.Parallel()
	server := loopback.StartSink(t, nil)
	target := Target{URL: "http://shop:open%20sesame@price.shop.svc.cluster.local/in"}
	s := start(t, create(t, target, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions()))
	open(t, s)
	_, err := s.Send(t.Context(), order("1"))
	require.NoError(t, err)
	user, password, ok := (&http.Request{Header: server.Requests()[0].Header}).BasicAuth()
	require.True(t, ok)
	require.Equal(t, []string{"shop", "open sesame"}, []string{user, password})
}

// A server may send a quarter of a mebibyte of certificates, and not end.
func TestTLSHandshakesWaitForTheMemoryBudget(t *testing.T) {
	t.Parallel()
	const calls, atATime = 12, 3
	memory := fair.NewBudget(2*atATime*handshakeBytes, 0)
	var most atomic.Int64
	address := listen(t, func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		most.Store(max(most.Load(), memory.Used()))
		_, _ = io.Copy(io.Discard, conn) // until the client has waited long enough
	})
	options := DefaultOptions()
	options.DialTimeout = time.Second
	network := NewNetwork(options)
	t.Cleanup(network.Close)
	s, err := New(Target{URL: "https://price.shop/in"}, Deps{
		Network: network, Endpoints: loopback.NewEndpoints(loopback.Ready(address)), ReplyMemory: memory.Share("shop"), Log: logr.Discard(),
	})
	require.NoError(t, err)
	open(t, start(t, s))
	var sending sync.WaitGroup
	for range calls {
		sending.Go(func() {
			_, err := s.Send(t.Context(), order("1"))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	sending.Wait()
	require.LessOrEqual(t, most.Load(), int64(atATime*handshakeBytes), "what one namespace may take")
	require.Positive(t, most.Load())
	require.Zero(t, memory.Used())
}

func TestAServerThatShowsTooManyCertificatesIsNotConnectedTo(t *testing.T) {
	t.Parallel()
	few, many := &x509.Certificate{Raw: make([]byte, maxCertificates/2)}, &x509.Certificate{Raw: make([]byte, maxCertificates)}
	require.NoError(t, fewCertificates(tls.ConnectionState{PeerCertificates: []*x509.Certificate{few, few}}))
	require.ErrorContains(t, fewCertificates(tls.ConnectionState{PeerCertificates: []*x509.Certificate{few, many}}), "certificates")
}

func TestABusyPodIsPassedOver(t *testing.T) {
	t.Parallel()
	var held sync.WaitGroup
	held.Add(1)
	busy := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) {
		held.Wait()
		w.WriteHeader(http.StatusNoContent)
	})
	idle := []*loopback.Sink{loopback.StartSink(t, nil), loopback.StartSink(t, nil)}
	endpoints := loopback.NewEndpoints(loopback.Ready(busy.Address()))
	s := run(t, endpoints, DefaultOptions())
	open(t, s)
	var first sync.WaitGroup
	first.Go(func() {
		_, err := s.Send(t.Context(), order("slow"))
		assert.NoError(t, err)
	})
	busy.Await(t, 1)

	s.pods.Apply([]routing.Endpoint{
		loopback.Ready(busy.Address()), loopback.Ready(idle[0].Address()), loopback.Ready(idle[1].Address()),
	})
	for range 20 {
		_, err := s.Send(t.Context(), order("fast"))
		require.NoError(t, err)
	}
	require.Len(t, busy.Requests(), 1)
	require.Len(t, idle[0].Requests(), 10)
	require.Len(t, idle[1].Requests(), 10)
	held.Done()
	first.Wait()
}

func TestAHangingSinkBlocksNoOther(t *testing.T) {
	t.Parallel()
	const many = 50
	var held sync.WaitGroup
	held.Add(1)
	hanging := loopback.StartSink(t, func(http.ResponseWriter, *http.Request) { held.Wait() })
	quick := loopback.StartSink(t, nil)
	network := NewNetwork(DefaultOptions())
	t.Cleanup(network.Close)
	var sinks []*Sink
	for _, server := range []*loopback.Sink{hanging, quick} {
		s, err := New(Target{URL: sinkURL}, Deps{
			Network: network, Endpoints: loopback.NewEndpoints(loopback.Ready(server.Address())), Log: logr.Discard(),
		})
		require.NoError(t, err)
		open(t, start(t, s))
		sinks = append(sinks, s)
	}
	var waiting sync.WaitGroup
	for range many {
		waiting.Go(func() {
			_, err := sinks[0].Send(t.Context(), order("1"))
			assert.NoError(t, err)
		})
	}
	hanging.Await(t, many)
	for range many {
		_, err := sinks[1].Send(t.Context(), order("1"))
		require.NoError(t, err)
	}
	held.Done()
	waiting.Wait()
}

func TestOneConnectionIsEnoughForOneAtATime(t *testing.T) {
	t.Parallel()
	var accepted atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			accepted.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s := run(t, loopback.NewEndpoints(loopback.Ready(server.Listener.Addr().String())), DefaultOptions())
	open(t, s)
	for range 50 {
		_, err := s.Send(t.Context(), order("1"))
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), accepted.Load())
}

func TestBodiesOfAnySizeAreAnswers(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{
		"none": 0, "a byte": 1, "an excerpt": excerptSize, "what is drained": drainSize, "more than is drained": drainSize + 1, "much": 5 << 20,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := loopback.StartSink(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Ce-Id") == "fails" {
					w.WriteHeader(http.StatusTeapot)
				}
				_, _ = io.WriteString(w, strings.Repeat("x", size))
			})
			s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
			open(t, s)
			for id, status := range map[string]int{"works": http.StatusOK, "fails": http.StatusTeapot} {
				for range 2 {
					answer, err := s.Send(t.Context(), order(id))
					require.NoError(t, err)
					require.Equal(t, status, answer.Status)
				}
			}
		})
	}
}

func FuzzHeaderValues(f *testing.F) {
	for _, value := range []string{
		"plain", "two\r\nHost: lines", "\x00", " spaces ", "\t", "\x7f", "ümläut", "\xff\xfe", "a,b;c=\"d\"", "%0A", strings.Repeat("x", 8<<10),
	} {
		f.Add(value, value)
	}
	requests := make(chan loopback.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- loopback.Request{Host: r.Host, Header: r.Header, Body: body}
		w.WriteHeader(http.StatusNoContent)
	}))
	f.Cleanup(server.Close)
	s := run(f, loopback.NewEndpoints(loopback.Ready(server.Listener.Addr().String())), DefaultOptions())
	open(f, s)
	f.Fuzz(func(t *testing.T, subject, extension string) {
		if len(subject)+len(extension) > 100<<10 {
			t.Skip("servers take no header of that size")
		}
		ev := &cloudevent.Event{ID: "1", Source: "shop", Type: "order", Subject: subject, DataContentType: extension, Data: []byte("x")}
		ev.SetExtension("note", extension)
		ev.SetExtension("traceparent", subject)
		answer, err := s.Send(t.Context(), ev)
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, answer.Status)
		request := <-requests
		require.Equal(t, "1", request.ID())
		require.Equal(t, "price.shop.svc.cluster.local:8080", request.Host)
		require.Equal(t, "x", string(request.Body))
		for header, value := range map[string]string{"Ce-Subject": subject, "Ce-Note": extension, "Traceparent": subject} {
			if value == strings.TrimSpace(value) && strings.IndexFunc(value, isControl) < 0 {
				require.Equal(t, value, request.Header.Get(header))
			}
		}
	})
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
