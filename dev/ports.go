package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

const host = "127.0.0.1"

// listen listens on a loopback port, 0 for any.
func listen(ctx context.Context, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

// listenAt listens on the port that a flag sets. When the flag is 0 it uses the usual port, or any other when that is taken; moved is
// true then.
func listenAt(ctx context.Context, flag string, wish, usual int) (listener net.Listener, moved bool, err error) {
	port := wish
	if wish == 0 {
		port = usual
	}
	listener, err = listen(ctx, port)
	if err == nil {
		return listener, false, nil
	}
	if wish != 0 {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, false, fmt.Errorf("port %d is taken: choose another with %s, or leave the flag out for any", wish, flag)
		}
		return nil, false, fmt.Errorf("take the port of %s: %w", flag, err)
	}
	if listener, err = listen(ctx, 0); err != nil {
		return nil, false, fmt.Errorf("take a port instead of %d: %w", usual, err)
	}
	return listener, true, nil
}

func portOf(listener net.Listener) int {
	if address, ok := listener.Addr().(*net.TCPAddr); ok {
		return address.Port
	}
	return 0
}

func urlOf(listener net.Listener) string { return "http://" + listener.Addr().String() }
