package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// bareRole is the simplest handler: the body goes to the stream, with its headers, and the answer is the confirmation.
func bareRole(ctx context.Context, ready func(string), args []string) error {
	url, subject := args[0], args[1]
	conn, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(2048))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /publish", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		id := r.Header.Get("Ce-Id")
		confirmation, err := js.PublishMsgAsync(&nats.Msg{Subject: subject, Data: body, Header: nats.Header{
			"ce-id": {id}, "ce-source": {r.Header.Get("Ce-Source")}, "ce-type": {r.Header.Get("Ce-Type")},
			"ce-specversion": {"1.0"}, "Content-Type": {r.Header.Get("Content-Type")}, "Nats-Msg-Id": {id},
		}})
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		select {
		case <-confirmation.Ok():
			w.WriteHeader(http.StatusNoContent)
		case <-confirmation.Err():
			w.WriteHeader(http.StatusServiceUnavailable)
		case <-r.Context().Done():
		}
	})
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
