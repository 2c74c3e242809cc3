package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	dialTimeout     = 5 * time.Second
	reconnectWait   = 250 * time.Millisecond
	reconnectJitter = 500 * time.Millisecond
	// A peer that vanished without closing the connection is noticed after two missed pings.
	pingInterval        = 10 * time.Second
	maxPingsOutstanding = 2
	requestTimeout      = 5 * time.Second
	// settleTimeout bounds how long a settlement waits for a reconnect.
	settleTimeout = 10 * time.Second
)

// Conn is the process's connection to NATS. It reconnects for ever.
type Conn struct {
	nc  *nats.Conn
	js  jetstream.JetStream
	log logr.Logger
	// requestTimeout bounds a request without a deadline of its own.
	requestTimeout time.Duration
	// retries bounds the waiting retries of each namespace.
	retries *retryShares
	// client is nc for callbacks, which may run before Connect has returned.
	client atomic.Pointer[nats.Conn]

	deadLetterCapacity deadLetterCapacity

	mu           sync.Mutex
	onConnect    []func()
	onDisconnect []func()
	changed      chan struct{} // closed and replaced whenever the connection comes or goes
	closed       chan struct{} // closed when nats.go has given the connection up
	closing      bool
	handBacks    sync.WaitGroup // messages on their way back to the server

	acks      acks
	consumers consumerLocks
	deletions *deletions
}

// Connect starts the connection. It does not wait until the server answers: a
// process has to start, and report that it is not ready, while NATS is away.
func Connect(ctx context.Context, o Options, log logr.Logger) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	c := &Conn{log: log, requestTimeout: cmp.Or(o.requestTimeout, requestTimeout), changed: make(chan struct{}), closed: make(chan struct{}), deletions: newDeletions()}
	security, err := c.securityOptions(o)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	nc, err := nats.Connect(o.URL, append(c.clientOptions(o.Name), security...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	c.client.Store(nc)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(c.requestTimeout))
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	c.nc, c.js, c.retries = nc, js, newRetryShares(c)
	c.acks.send = c.sendAcks
	return c, nil
}

func (c *Conn) clientOptions(name string) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.CustomInboxPrefix(inboxPrefix(name)),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		// Nothing is buffered while disconnected: a publisher must get the error at once.
		nats.ReconnectBufSize(-1),
		nats.Timeout(dialTimeout),
		nats.SetCustomDialer(dialer(dial)),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPingsOutstanding),
		nats.FlusherTimeout(writeTimeout),
		nats.ConnectHandler(c.connected),
		nats.ReconnectHandler(c.connected),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			c.log.Info("disconnected from NATS", "reason", reason(err))
			c.announce()
			c.call(&c.onDisconnect)
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.log.Error(err, "NATS reported an error")
		}),
		nats.ClosedHandler(func(*nats.Conn) {
			close(c.closed)
			c.announce()
		}),
	}
}

func (c *Conn) connected(nc *nats.Conn) {
	c.log.Info("connected to NATS", "url", nc.ConnectedUrlRedacted())
	c.announce()
	c.call(&c.onConnect)
}

func (c *Conn) call(registered *[]func()) {
	c.mu.Lock()
	handlers := slices.Clone(*registered)
	c.mu.Unlock()
	for _, handle := range handlers {
		handle()
	}
}

// announce wakes every goroutine that waits for the connection to change.
func (c *Conn) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Connected reports whether the connection is up.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// OnConnect calls f after the first connect and after each reconnect, also when
// the first connect happened before. f must not block: other callbacks wait for
// it. It may be called once more than there were connects, never less.
func (c *Conn) OnConnect(f func()) {
	c.mu.Lock()
	c.onConnect = append(c.onConnect, f)
	c.mu.Unlock()
	if c.Connected() {
		f()
	}
}

// Close hands undelivered messages back, flushes what was sent or collected and ends all
// subscriptions, at most until ctx ends. Then the connection is gone for good.
func (c *Conn) Close(ctx context.Context) error {
	c.acks.flush()
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	handedBack := make(chan struct{})
	go func() {
		c.handBacks.Wait()
		close(handedBack)
	}()
	err := waitFor(ctx, handedBack)
	// Without a connection there is nothing to drain.
	if err == nil && c.nc.Drain() == nil {
		err = waitFor(ctx, c.closed)
	}
	c.nc.Close()
	<-c.closed
	<-handedBack
	if err != nil {
		return fmt.Errorf("drain the NATS connection: %w", err)
	}
	return nil
}

// inBackground runs f so that Close waits for it. While the connection closes it
// refuses.
func (c *Conn) inBackground(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.handBacks.Go(f)
	return true
}

func waitFor(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// changes is closed the next time the connection comes or goes. Get it before
// checking the connection, so that no change is missed.
func (c *Conn) changes() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *Conn) waitConnected(ctx context.Context) error {
	for {
		changes := c.changes()
		if c.nc.IsConnected() {
			return nil
		}
		if c.nc.IsClosed() {
			return ErrNotConnected
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotConnected, ctx.Err())
		}
	}
}

// send publishes an answer to the server. One that meets a broken connection
// waits for the next: an acknowledgement stays valid, and without it the
// event would be delivered a second time.
func (c *Conn) send(ctx context.Context, subject string, data []byte) error {
	err := mapError(c.nc.Publish(subject, data))
	if !errors.Is(err, ErrNotConnected) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for errors.Is(err, ErrNotConnected) {
		if waitErr := c.waitConnected(ctx); waitErr != nil {
			return waitErr
		}
		err = mapError(c.nc.Publish(subject, data))
	}
	return err
}

func reason(err error) string {
	if err == nil {
		return "closed"
	}
	return err.Error()
}

const closeTimeout = 10 * time.Second

// Hold keeps the connection open until ctx ends, and then drains and closes it. It is how a process that runs parts under
// contexts runs its connection.
func (c *Conn) Hold(ctx context.Context) error {
	<-ctx.Done()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return c.Close(closing)
}

// writeTimeout bounds a write to a server that reads nothing. The write holds the lock of nats.go's connection, and blocks all publishers
// and the pings that would detect the outage.
const writeTimeout = 5 * time.Second

// dialer is a nats.CustomDialer.
type dialer func(network, address string) (net.Conn, error)

// Dial has no context, as nats.go has none for it.
func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// dial makes a connection that a failed write ends. nats.go goes on with one, and the next write waits as long again.
func dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).Dial(network, address)
	if err != nil {
		return nil, err
	}
	return endedByWrite{conn}, nil
}

type endedByWrite struct{ net.Conn }

func (c endedByWrite) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		_ = c.Close() // the reader gets an error and reconnects
	}
	return n, err
}

// callAPI sends a request of JetStream's API that the client library does not offer, and decodes the response into answer.
// Errors of the client library are left to be mapped.
func (c *Conn) callAPI(ctx context.Context, subject string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout)
	defer cancel()
	raw, err := c.nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return err
	}
	var envelope struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(raw.Data, &envelope); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if envelope.Error != nil {
		return mapAPIError(envelope.Error)
	}
	if err := json.Unmarshal(raw.Data, answer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}
