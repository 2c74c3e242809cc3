package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/broker"
)

// sinkRole answers 204 to every event and counts.
func sinkRole(ctx context.Context, ready func(string), _ []string) error {
	var count atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		count.Add(1)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, count.Load()) })
	mux.HandleFunc("GET /reset", func(http.ResponseWriter, *http.Request) { count.Store(0) })
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ready("http://" + listener.Addr().String())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// bareRole is the simplest loop: pull, POST the bytes, ack.
func bareRole(ctx context.Context, ready func(string), args []string) error {
	url, consumer, sink := args[0], args[1], args[2]
	limit, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	conn, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	handle, err := js.Consumer(ctx, broker.DefaultStream, consumer)
	if err != nil {
		return fmt.Errorf("find the consumer: %w", err)
	}
	messages, err := handle.Messages(jetstream.PullMaxMessages(2 * limit))
	if err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: limit}}
	places := make(chan struct{}, limit)
	ready("")
	for {
		message, err := messages.Next()
		if err != nil {
			return nil // it was stopped
		}
		places <- struct{}{}
		go func() {
			defer func() { <-places }()
			if deliver(ctx, client, sink, message.Data()) == nil {
				_ = message.Ack()
			}
		}()
	}
}

func deliver(ctx context.Context, client *http.Client, sink string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, sink, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.Body.Close()
}
