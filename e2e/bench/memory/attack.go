package memory

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/internal/routing"
)

// shape is one load that could make a bridge take memory: requests that it receives, deliveries whose sinks answer in a
// hostile way, or both.
type shape struct {
	name string

	// Requests to the bridge.
	connections int
	request     string // what each of them sends; {n} is another number each time
	to          endpoint
	behaviour   behaviour

	// Deliveries of the bridge.
	tenant tenant

	flags      []string      // of the bridge
	reviewTime time.Duration // how long the API server takes to review a token
}

// endpoint is the server of a bridge that a shape attacks.
type endpoint int

const (
	publishing endpoint = iota
	administering
	measuring
)

// behaviour is how attackers treat answers.
type behaviour int

const (
	readsAnswers   behaviour = iota // they read them
	ignoresAnswers                  // they read none, and send until they cannot
	disconnects                     // they disconnect when they have sent
)

// tenant has Subscriptions to events that wait when the bridge starts. All of them get all events.
type tenant struct {
	subscriptions int
	namespaces    int // that they are spread over; 1 if it is 0
	events        int
	data          string
	answer        string // of their sinks: a name out of answers
	change        func(routing.Route) routing.Route
	takeover      bool // another bridge has had the events, and was killed
}

// shapes are all that are played.
func shapes() []shape { return slices.Concat(publisherShapes(), tenantShapes(), adminShapes()) }

// scaled is the shape with so many percent of its connections, Subscriptions and events.
func (s shape) scaled(percent int) shape {
	for _, n := range []*int{&s.connections, &s.tenant.subscriptions, &s.tenant.events} {
		if *n > 0 {
			*n = max(1, *n*percent/100)
		}
	}
	return s
}

// gains are what the attackers got.
type gains struct{ sent, taken, refused, broken atomic.Int64 }

// attack keeps all connections of a shape until ctx ends. One that is closed comes back.
func attack(ctx context.Context, address string, s shape, got *gains) {
	var all sync.WaitGroup
	for range s.connections {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := hold(ctx, address, s, got); err != nil {
					got.broken.Add(1)
					select {
					case <-time.After(100 * time.Millisecond):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	all.Wait()
}

// hold sends the shape's request on one connection, until the connection ends.
func hold(ctx context.Context, address string, s shape, got *gains) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	answers := bufio.NewReaderSize(conn, 512)
	for {
		if _, err := io.WriteString(conn, numbered(s.request)); err != nil {
			return err
		}
		got.sent.Add(1)
		switch s.behaviour {
		case ignoresAnswers:
		case disconnects:
			return nil
		default:
			if err := readAnswer(answers, got); err != nil {
				return err
			}
		}
	}
}

// readAnswer reads an answer and counts it.
func readAnswer(answers *bufio.Reader, got *gains) error {
	answer, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}
	if answer.StatusCode < http.StatusMultipleChoices {
		got.taken.Add(1)
	} else {
		got.refused.Add(1)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	if err == nil && answer.Close {
		err = io.EOF
	}
	return err
}

const numberSize = 10

var number atomic.Int64

// numbered replaces {n} in a text by another number each time.
func numbered(text string) string {
	if !strings.Contains(text, "{n}") {
		return text
	}
	return strings.Replace(text, "{n}", fmt.Sprintf("%0*d", numberSize, number.Add(1)), 1)
}

// answer is what a hostile sink answers to each event. Unless the answer is whole, the sink then keeps the connection and sends
// nothing more until it is closed.
type answer struct {
	start string
	more  string        // behind it, as often as times says
	times int           // however often: forever
	every time.Duration // between two
	whole bool
}

const forever = 1 << 30

// ok begins an answer, line by line.
func ok(lines ...string) string { return "HTTP/1.1 200 OK\r\n" + strings.Join(lines, "\r\n") }

// reply begins one that is an event.
func reply(mode string, size int) string {
	return ok(mode, fmt.Sprintf("Content-Length: %d", size)) + "\r\n\r\n"
}

const (
	structured = "Content-Type: application/cloudevents+json"
	binaryText = "Ce-Specversion: 1.0\r\nCe-Id: {n}\r\nCe-Source: " + source + "\r\nCe-Type: reply.v1\r\nContent-Type: text/plain"
	eventStart = `{"specversion":"1.0","id":"{n}","source":"` + source + `","type":"reply.v1",`
	largeReply = 1000 << 10 // as large as NATS takes, and less than a mebibyte
)

// Names of answers that are asked for in several places.
const (
	hangs     = "hangs"
	takes     = "takes"
	rejects   = "rejects"
	certified = "certificates"
)

// answers have names, by which the path of a sink's address asks for them. No bridge, which is the same program, has them in
// memory.
var answers = sync.OnceValue(func() map[string]answer {
	return map[string]answer{
		hangs:          {},
		takes:          {start: "HTTP/1.1 204 No Content\r\n\r\n", whole: true},
		rejects:        {start: "HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 2048\r\n\r\n", more: strings.Repeat("x", 2048), times: 1, whole: true},
		"later":        {start: "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n", whole: true},
		"long headers": {start: ok(""), more: "Note: " + strings.Repeat("x", 8<<10) + "\r\n", times: 128},
		"headers":      {start: ok(strings.Repeat("Note: "+strings.Repeat("x", 240)+"\r\n", 62))},
		"tiny lines":   {start: ok(tinyLines(15 << 10))},
		"100 MiB":      {start: ok("Content-Length: 104857600") + "\r\n\r\n", more: strings.Repeat("x", 64<<10), times: 1600, whole: true},
		"trickles":     {start: ok("Transfer-Encoding: chunked") + "\r\n\r\n", more: "1\r\nx\r\n", times: forever, every: 50 * time.Millisecond},
		"reply": {
			start: reply(structured, largeReply), more: padded(eventStart+`"data":"`, largeReply), times: 1, whole: true,
		},
		"slow reply": {
			start: reply(structured, 1<<20), more: strings.Repeat(" ", 16<<10), times: 63, every: 50 * time.Millisecond,
		},
		"extensions": {
			start: reply(structured, 1<<20), more: manyExtensions(1 << 20), times: 1, whole: true,
		},
		"growing reply": {start: reply(binaryText, 1<<20), more: strings.Repeat("\x01", 1<<20), times: 1, whole: true},
		certified:       {},
	}
})

func answerPath(name string) string { return url.PathEscape(name) }

// padded is a text that begins so, has so many bytes, and ends a string and an object of JSON. {n} may grow to a few digits.
func padded(start string, size int) string {
	const end, digits = `"}`, len("{n}")
	return start + strings.Repeat("x", size-len(start)-len(end)+digits-numberSize) + end
}

// manyExtensions is an event of so many bytes.
func manyExtensions(size int) string {
	var event strings.Builder
	event.WriteString(eventStart)
	for i := 0; event.Len() < size-32; i++ {
		fmt.Fprintf(&event, `"e%x":1,`, i)
	}
	return padded(event.String()+`"data":"`, size)
}

// sink is that of all hostile Subscriptions. It answers as the path of a request asks it to.
type sink struct {
	listener net.Listener
	tls      *tls.Config // of connections that begin with TLS
	calls    atomic.Int64
	open     sync.WaitGroup
}

func startSink(ctx context.Context) (*sink, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	certificate, err := hugeCertificate()
	if err != nil {
		return nil, err
	}
	s := &sink{listener: listener, tls: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	s.open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.open.Go(func() { s.serve(ctx, conn) })
		}
	})
	return s, nil
}

func (s *sink) address() string { return s.listener.Addr().String() }

// close returns when all connections have ended, for which the context has to.
func (s *sink) close() {
	_ = s.listener.Close()
	s.open.Wait()
}

func (s *sink) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	requests := bufio.NewReader(conn)
	const handshake = 0x16
	if first, err := requests.Peek(1); err == nil && first[0] == handshake {
		s.calls.Add(1)
		_ = tls.Server(&stuck{Conn: conn, from: requests, left: stuckAfter}, s.tls).HandshakeContext(ctx)
		return
	}
	for {
		request, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, request.Body)
		s.calls.Add(1)
		if !answers()[strings.TrimPrefix(request.URL.Path, "/")].write(ctx, conn) {
			_, _ = io.Copy(io.Discard, requests) // until the bridge has had enough
			return
		}
	}
}

// write is false when nothing may follow.
func (a answer) write(ctx context.Context, to io.Writer) bool {
	if _, err := io.WriteString(to, numbered(a.start)); err != nil {
		return false
	}
	for range a.times {
		if _, err := io.WriteString(to, numbered(a.more)); err != nil {
			return false
		}
		if a.every > 0 {
			select {
			case <-ctx.Done():
				return false
			case <-time.After(a.every):
			}
		}
	}
	return a.whole
}

const (
	// certificateSize is nearly as much as a client takes of them, and stuckAfter how much of its handshake a sink sends.
	certificateSize = 250 << 10
	stuckAfter      = 240 << 10
)

// hugeCertificate is one with a chain of nothing.
func hugeCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	leaf, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{leaf, make([]byte, certificateSize)}, PrivateKey: key}, nil
}

// stuck is a connection whose writer waits for ever before the end of its data.
type stuck struct {
	net.Conn

	from io.Reader
	left int
}

// Read implements net.Conn.
func (s *stuck) Read(p []byte) (int, error) { return s.from.Read(p) }

// Write implements net.Conn.
func (s *stuck) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p[:min(len(p), s.left)])
	if s.left -= n; err == nil && n < len(p) {
		_, err = io.Copy(io.Discard, s.from) // until the bridge has had enough
	}
	return n, err
}
