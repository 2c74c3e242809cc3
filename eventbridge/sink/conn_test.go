package sink

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// oddAnswers are variants to answer an event with its own id, whole or in part. They report whether the server goes on with
// the connection.
func oddAnswers() []func(conn net.Conn, id string, giveUp func()) bool {
	write := func(conn net.Conn, text string) { _, _ = io.WriteString(conn, text) }
	plain := func(id, header string) string {
		return fmt.Sprintf("HTTP/1.1 500 Oh\r\nContent-Length: %d\r\n%s\r\n%s", len(id), header, id)
	}
	answer := func(text func(id string) string, on bool) func(net.Conn, string, func()) bool {
		return func(conn net.Conn, id string, _ func()) bool {
			write(conn, text(id))
			return on
		}
	}
	return []func(net.Conn, string, func()) bool{
		answer(func(id string) string { return plain(id, "") }, true),
		answer(func(id string) string { return plain(id, "") }, false), // it closes after its answer
		answer(func(id string) string { return plain(id, "Connection: close\r\n") }, true),
		answer(func(id string) string {
			return "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\n\r\n" + plain(id, "")
		}, true),
		answer(func(id string) string {
			return fmt.Sprintf("HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX-A: b\r\n\r\n", len(id), id)
		}, true),
		answer(func(id string) string { return plain(id, "") + plain("another's", "") }, true),
		answer(func(id string) string { return plain(id+"-half", "")[:len(plain(id+"-half", ""))-5] }, false),
		answer(func(string) string { return "HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n" }, true),
		answer(func(string) string { return "HTTP/1.1 20" }, false),
		func(conn net.Conn, id string, _ func()) bool { // byte by byte
			for _, c := range []byte(plain(id, "")) {
				write(conn, string(c))
			}
			return true
		},
		func(conn net.Conn, _ string, _ func()) bool {
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset
			return false
		},
		func(conn net.Conn, id string, giveUp func()) bool { // too late
			giveUp()
			write(conn, plain(id, ""))
			return true
		},
	}
}

// oddServer answers each event with the variant that its id begins with.
func oddServer(t *testing.T, giveUp func(id string)) (address string) {
	t.Helper()
	ways := oddAnswers()
	return listen(t, func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		for requests := bufio.NewReader(conn); ; {
			request, err := http.ReadRequest(requests)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			id := request.Header.Get("Ce-Id")
			variant, _, _ := strings.Cut(id, "-")
			number, _ := strconv.Atoi(variant)
			if !ways[number](conn, id, func() { giveUp(id) }) {
				return
			}
		}
	})
}

// However a pod misbehaves, its answer to one event is never read as the answer to another.
func TestPooledConnectionsDoNotMixAnswers(t *testing.T) {
	t.Parallel()
	const senders, rounds = 8, 5
	var cancels sync.Map
	address := oddServer(t, func(id string) {
		if cancel, ok := cancels.Load(id); ok {
			cancel.(context.CancelFunc)()
		}
	})
	s := run(t, loopback.NewEndpoints(loopback.Ready(address)), DefaultOptions())
	open(t, s)
	send := func(id string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cancels.Store(id, cancel)
		answer, err := s.Send(ctx, order(id))
		if err != nil {
			assert.Zero(t, answer.Status)
			return
		}
		switch answer.Status {
		case http.StatusNoContent:
			assert.True(t, strings.HasPrefix(id, "7-"), id)
		default:
			assert.Equal(t, http.StatusInternalServerError, answer.Status, id)
			assert.Equal(t, id, answer.Excerpt)
		}
	}
	var sending sync.WaitGroup
	for sender := range senders {
		sending.Go(func() {
			for round := range rounds {
				for variant := range oddAnswers() {
					send(fmt.Sprintf("%d-%d-%d", variant, sender, round))
				}
			}
		})
	}
	sending.Wait()
}
