package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// request is what every connection sends again and again. The client is written by hand because net/http takes more of
// a core for a request than the fastest of the measured servers.
const request = "GET / HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"

// load is what one run found out.
type load struct {
	requests  int
	elapsed   time.Duration
	latencies []time.Duration
}

func (l load) perSecond() float64 { return float64(l.requests) / l.elapsed.Seconds() }

// drive keeps the given number of connections busy for some time: each sends its next request when it has the answer.
func drive(ctx context.Context, address string, connections int, duration time.Duration) (load, error) {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var (
		group  sync.WaitGroup
		mutex  sync.Mutex
		total  load
		failed error
	)
	begin := time.Now()
	for range connections {
		group.Go(func() {
			latencies, err := repeat(ctx, address)
			mutex.Lock()
			defer mutex.Unlock()
			total.latencies = append(total.latencies, latencies...)
			failed = errors.Join(failed, err)
		})
	}
	group.Wait()
	total.elapsed = time.Since(begin)
	total.requests = len(total.latencies)
	return total, failed
}

// repeat uses one connection until the time is over.
func repeat(ctx context.Context, address string) ([]time.Duration, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	answers := bufio.NewReader(conn)
	latencies := make([]time.Duration, 0, 4096)
	for ctx.Err() == nil {
		begin := time.Now()
		if _, err := io.WriteString(conn, request); err != nil {
			return nil, fmt.Errorf("send request: %w", err)
		}
		if err := readAnswer(answers); err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
		latencies = append(latencies, time.Since(begin))
	}
	return latencies, nil
}

// readAnswer takes one whole answer off the connection, and insists on the right one.
func readAnswer(answers *bufio.Reader) error {
	status, err := answers.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("answer is %q", status)
	}
	length := -1
	for {
		line, err := answers.ReadSlice('\n')
		if err != nil {
			return err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := strings.Cut(string(line), ":")
		if strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return fmt.Errorf("content length: %w", err)
			}
		}
	}
	if length != len(greeting) {
		return fmt.Errorf("answer has %d bytes instead of %d", length, len(greeting))
	}
	_, err = answers.Discard(length)
	return err
}
