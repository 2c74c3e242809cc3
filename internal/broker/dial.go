package broker

import (
	"net"
	"time"
)

// writeTimeout is how long a server may take nothing. A write to it holds the lock of nats.go's connection, and with it the pings that
// would find the server gone and everybody who publishes.
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
		_ = c.Close() // who reads hears of it and reconnects
	}
	return n, err
}
