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
	"time"
)

// attack keeps all connections of a shape until ctx ends. One that is closed comes back.
func attack(ctx context.Context, address string, s shape) {
	var all sync.WaitGroup
	for range s.connections {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := hold(ctx, address, s); err != nil {
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

// hold sends on one connection what there is to send, until it ends.
func hold(ctx context.Context, address string, s shape) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if s.unread {
		for {
			if _, err := io.WriteString(conn, s.request); err != nil {
				return err
			}
		}
	}
	answers := bufio.NewReaderSize(conn, 512)
	for {
		if _, err := io.WriteString(conn, s.request); err != nil {
			return err
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.Close {
			return err
		}
	}
}

// publish is what everybody else does: an event of 1 KiB at a time on a connection of its own. Whoever is asked to try
// again a little later does.
func publish(ctx context.Context, where string) (stored, refused int) {
	const pause, soon, tries = 20 * time.Millisecond, 200 * time.Millisecond, 3
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ; ctx.Err() == nil; time.Sleep(pause) {
		ok := false
		for range tries {
			if ok = publishOne(ctx, client, where, stored+refused); ok || ctx.Err() != nil {
				break
			}
			time.Sleep(soon)
		}
		switch {
		case ok:
			stored++
		case ctx.Err() == nil:
			refused++
		}
	}
	return stored, refused
}

func publishOne(ctx context.Context, client *http.Client, where string, id int) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, where+"/publish", strings.NewReader(strings.Repeat("x", 1<<10)))
	if err != nil {
		return false
	}
	for name, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": fmt.Sprintf("honest-%d", id), "Ce-Source": source, "Ce-Type": "quiet.v1", "Content-Type": "text/plain",
	} {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusNoContent
}
