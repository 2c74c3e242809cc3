package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
)

// batch is how many events a pull request asks for.
const batch = 2 * inFlight

// delivery is a received event and what a dispatcher asks of it: its sequence, and its ack.
type delivery struct {
	own     *broker.Message
	library jetstream.Msg
}

func (d delivery) settle(ctx context.Context) error {
	if d.own != nil {
		defer d.own.Release()
		if d.own.Sequence() == 0 {
			return errShort
		}
		return d.own.Ack(ctx)
	}
	if metadata, err := d.library.Metadata(); err != nil || metadata.Sequence.Stream == 0 {
		return errors.Join(err, errShort)
	}
	return d.library.Ack()
}

// receiver hands over what a consumer is sent until its context ends.
type receiver func(ctx context.Context, consumer jetstream.Consumer, take func(delivery)) error

func (s *server) group(events int) group {
	run := func(receive receiver) func(context.Context, int) error {
		return func(ctx context.Context, events int) error { return s.receive(ctx, events, receive) }
	}
	return group{name: "pull", events: events, variants: []variant{
		{"own", run(s.own)}, {"jetstream.Messages", run(messages)}, {"jetstream.Consume", run(consume)}, {"jetstream.Fetch", run(fetch)},
	}}
}

// receive settles the events of a new consumer at the rate, as receive hands them over.
func (s *server) receive(ctx context.Context, events int, receive receiver) error {
	consumer, err := s.consumer(ctx)
	if err != nil {
		return err
	}
	receiving, stop := context.WithCancel(ctx)
	defer stop()
	arrived, ended := make(chan delivery, inFlight), make(chan error, 1)
	go func() {
		ended <- receive(receiving, consumer, func(d delivery) {
			select {
			case arrived <- d:
			case <-receiving.Done():
			}
		})
	}()
	err = pace(ctx, events, perSecond, func() error {
		select {
		case d := <-arrived:
			return d.settle(ctx)
		case err := <-ended:
			ended <- nil
			return fmt.Errorf("receiving ended: %w", err)
		}
	})
	stop()
	return errors.Join(err, <-ended)
}

func (s *server) own(ctx context.Context, consumer jetstream.Consumer, take func(delivery)) error {
	source := broker.NewSource(s.conn, stream, consumer.CachedInfo().Name, types.NamespacedName{}, inFlight)
	return source.Receive(ctx, nil, func(m *broker.Message) { take(delivery{own: m}) })
}

func messages(ctx context.Context, consumer jetstream.Consumer, take func(delivery)) error {
	arriving, err := consumer.Messages(jetstream.PullMaxMessages(batch))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, arriving.Stop)()
	for {
		m, err := arriving.Next()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		take(delivery{library: m})
	}
}

func consume(ctx context.Context, consumer jetstream.Consumer, take func(delivery)) error {
	consuming, err := consumer.Consume(func(m jetstream.Msg) { take(delivery{library: m}) }, jetstream.PullMaxMessages(batch))
	if err != nil {
		return err
	}
	<-ctx.Done()
	consuming.Stop()
	<-consuming.Closed()
	return nil
}

// fetch is what a budget of bytes could be kept with: one request at a time, which says how many messages and bytes.
func fetch(ctx context.Context, consumer jetstream.Consumer, take func(delivery)) error {
	for ctx.Err() == nil {
		arriving, err := consumer.Fetch(batch, jetstream.FetchMaxBytes(batch<<11), jetstream.FetchContext(ctx))
		if err != nil {
			return err
		}
		for m := range arriving.Messages() {
			take(delivery{library: m})
		}
		if err := arriving.Error(); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
