package bare

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/broker"
)

// Prefetch is how many messages Deliver asks for at a time. Its consumer has to let as many be unsettled.
const Prefetch = 1000

// Deliver is the simplest loop: pull, POST the bytes, ack. Its arguments are the URL of the server, the consumer, the URL
// of the sink and the deliveries at a time.
func Deliver(ctx context.Context, ready func(string), args []string) error {
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
	messages, err := handle.Messages(jetstream.PullMaxMessages(Prefetch))
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
			if post(ctx, client, sink, message.Data()) == nil {
				_ = message.Ack()
			}
		}()
	}
}

func post(ctx context.Context, client *http.Client, sink string, body []byte) error {
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
