package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

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
