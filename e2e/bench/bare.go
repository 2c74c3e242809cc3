package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// The baselines of the benchmarks are the simplest programs that can do a bridge's work, as roles of a rig.

// bareMaxPending is more than any benchmark has connections, so that no request waits for it.
const bareMaxPending = 4096

// bareIngress is the simplest handler of events in binary mode: read the body, publish it with the event's headers, and answer
// after the stream has confirmed it. Its argument is the URL of the server.
func bareIngress(ctx context.Context, ready func(string), args []string) error {
	conn, err := nats.Connect(args[0])
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(bareMaxPending))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return rig.Serve(ctx, 0, ready, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = bareStore(r.Context(), js, r.Header, body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
}

func bareStore(ctx context.Context, js jetstream.JetStream, h http.Header, body []byte) error {
	id, source, kind := h.Get("Ce-Id"), h.Get("Ce-Source"), h.Get("Ce-Type")
	future, err := js.PublishMsgAsync(&nats.Msg{
		Subject: routing.SubjectPrefix + "." + source + "." + kind,
		Data:    body,
		Header: nats.Header{
			"ce-specversion": {h.Get("Ce-Specversion")}, "ce-id": {id}, "ce-source": {source}, "ce-type": {kind},
			"Content-Type": {h.Get("Content-Type")}, jetstream.MsgIDHeader: {id},
		},
	})
	if err != nil {
		return err
	}
	select {
	case <-future.Ok():
		return nil
	case err := <-future.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// barePrefetch is how many messages Deliver asks for at a time. Its consumer has to let as many be unsettled.
const barePrefetch = 1000

// bareDeliver is the simplest loop: pull, POST the bytes, ack. Its arguments are the URL of the server, the consumer, the URL
// of the sink and the deliveries at a time.
func bareDeliver(ctx context.Context, ready func(string), args []string) error {
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
	messages, err := handle.Messages(jetstream.PullMaxMessages(barePrefetch))
	if err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: limit}}
	slots := make(chan struct{}, limit)
	ready("")
	for {
		message, err := messages.Next()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("pull: %w", err)
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			if barePost(ctx, client, sink, message.Data()) == nil {
				_ = message.Ack()
			}
		}()
	}
}

func barePost(ctx context.Context, client *http.Client, sink string, body []byte) error {
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
