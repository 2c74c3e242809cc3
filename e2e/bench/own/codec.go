package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// codecEvents are enough for a second or two of each codec.
const codecEvents = 200_000

var errShort = errors.New("the event lost something")

// published is a request of 1 KiB in binary mode.
func published() (http.Header, []byte) {
	body := `{"order":{"id":"4711","items":[{"sku":"A-1","count":2},{"sku":"B-2","count":1}],"note":"` + strings.Repeat("x", 920) + `"}}`
	return http.Header{
		"Ce-Specversion": {"1.0"}, "Ce-Id": {"b6dd2c9e-4e9e-4f4a-8f47-2d1e4a7c2e39"}, "Ce-Source": {"shop"}, "Ce-Type": {"order.received.v1"},
		"Ce-Time": {"2026-01-02T03:04:05.678Z"}, "Content-Type": {"application/json"}, "Content-Length": {"1030"}, "User-Agent": {"Go-http-client/1.1"},
	}, []byte(body)
}

// stored is the same event as JetStream has it.
func stored() []byte {
	ev, err := cloudevent.FromBinary(published())
	if err != nil {
		panic(err) // it is an event
	}
	ev.SetExtension("originaltype", ev.Type)
	return ev.AppendStructured(nil)
}

func repeat(do func(context.Context) error) func(context.Context, int) error {
	return func(ctx context.Context, events int) error {
		for range events {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// storing reads a request and writes what is stored.
func storing() group {
	header, body := published()
	own := func(context.Context) error {
		ev, err := cloudevent.FromBinary(header, body)
		if err != nil {
			return err
		}
		if err := ev.Validate(); err != nil {
			return err
		}
		ev.SetExtension("originaltype", ev.Type)
		return long(ev.AppendStructured(make([]byte, 0, len(body)+512)), body)
	}
	sdk := func(ctx context.Context) error {
		ev, err := binding.ToEvent(ctx, cehttp.NewMessage(header, io.NopCloser(bytes.NewReader(body))))
		if err != nil {
			return err
		}
		if err := ev.Validate(); err != nil {
			return err
		}
		ev.SetExtension("originaltype", ev.Type())
		var out bytes.Buffer
		if err := event.WriteJson(ev, &out); err != nil {
			return err
		}
		return long(out.Bytes(), body)
	}
	return group{name: "store", events: codecEvents, variants: []variant{
		{"own", repeat(own)}, {"sdk-go", repeat(sdk)},
	}}
}

// delivering reads what is stored and writes the header of a request.
func delivering() group {
	text := stored()
	_, body := published()
	own := func(context.Context) error {
		ev, err := cloudevent.FromStructured(text)
		if err != nil {
			return err
		}
		if err := ev.Validate(); err != nil {
			return err
		}
		header := headers.Get().(http.Header)
		defer headers.Put(header)
		clear(header)
		ev.SetHeader(header)
		return long(ev.Data, body)
	}
	sdk := func(ctx context.Context) error {
		ev := event.Event{}
		if err := json.Unmarshal(text, &ev); err != nil {
			return err
		}
		if err := ev.Validate(); err != nil {
			return err
		}
		request := &http.Request{Header: http.Header{}}
		if err := cehttp.WriteRequest(ctx, (*binding.EventMessage)(&ev), request); err != nil {
			return err
		}
		return long(ev.Data(), body)
	}
	return group{name: "deliver", events: codecEvents, variants: []variant{
		{"own", repeat(own)}, {"sdk-go", repeat(sdk)},
	}}
}

func long(text, body []byte) error {
	if len(text) < len(body) {
		return errShort
	}
	return nil
}
