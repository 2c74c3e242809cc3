package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

// emitted is the response of handlers that emit.
var emitted = map[string]any{"emitted": true}

// verbatim contains characters that a shell or a template would replace.
const verbatim = "$$$ b $(FUNC_NAME) c \\n d \u00e9 ü 漢 🦉 `"

func anyEventEvent(_ context.Context, event function.Event) (any, error) {
	if event.ID == "" {
		return map[string]any{"event": false}, nil
	}
	return map[string]any{"event": true, "specversion": event.SpecVersion, "time": !event.Time.IsZero()}, nil
}

func busyEvent(_ context.Context, _ function.Event) (any, error) {
	_, _ = fmt.Fprintln(os.Stdout, "began")
	for { //nolint:staticcheck // it never gives up the processor
	}
}

func contextEvent(_ context.Context, _ function.Event) (any, error) {
	return map[string]any{
		"name": function.Name(), "namespace": function.Namespace(), "runtime": function.Runtime(), "timeout": function.Timeout().Seconds(),
	}, nil
}

func echoEvent(ctx context.Context, event function.Event) (any, error) {
	var data any
	if err := event.DataAs(&data); err != nil {
		return nil, err
	}
	return map[string]any{"method": function.Request(ctx).Method, "data": data}, nil
}

func emitEvent(ctx context.Context, event function.Event) (any, error) {
	var was any
	if err := event.DataAs(&was); err != nil {
		return nil, err
	}
	priced := map[string]any{"price": 42, "was": was}
	if err := function.Emit(ctx, "order.priced", "orders", priced, function.Attributes{"eventtypeversion": "v1"}); err != nil {
		return nil, err
	}
	return emitted, nil
}

func emitCauseEvent(ctx context.Context, _ function.Event) (any, error) {
	if err := function.Emit(ctx, "order.noted", "orders", nil, function.Attributes{"rousecause": "mine"}); err != nil {
		return nil, err
	}
	return emitted, nil
}

func emitInvalidEvent(ctx context.Context, _ function.Event) (any, error) {
	if err := function.Emit(ctx, "order.noted", "orders", "grüß dich", function.Attributes{"not-valid": "x"}); err != nil {
		return nil, err
	}
	return emitted, nil
}

func emitTextEvent(ctx context.Context, _ function.Event) (any, error) {
	if err := function.Emit(ctx, "order.noted", "orders", "grüß dich"); err != nil {
		return nil, err
	}
	return emitted, nil
}

func emptyEvent(context.Context, function.Event) error {
	return nil
}

func eventEvent(_ context.Context, event function.Event) (any, error) {
	var data any
	if err := event.DataAs(&data); err != nil {
		return nil, err
	}
	return map[string]any{
		"id": event.ID, "type": event.Type, "source": event.Source, "version": event.Extensions["eventtypeversion"], "data": data,
	}, nil
}

func objectEvent(_ context.Context, _ function.Event) (any, error) {
	return map[string]any{"answer": 42}, nil
}

func pathEvent(ctx context.Context, _ function.Event) (any, error) {
	return function.Request(ctx).RequestURI, nil
}

func slowEvent(_ context.Context, _ function.Event) (any, error) {
	_, _ = fmt.Fprintln(os.Stdout, "began")
	time.Sleep(1500 * time.Millisecond)
	return map[string]any{"finished": true}, nil
}

func statusEvent(context.Context, function.Event) (*function.Response, error) {
	return &function.Response{
		Status: http.StatusCreated,
		Header: http.Header{"X-Order": {"7"}, "Content-Type": {"application/vnd.order+json"}},
		Body:   map[string]any{"created": true},
	}, nil
}

func stringEvent(_ context.Context, _ function.Event) (any, error) {
	return "grüß <b>dich</b>", nil
}

func textEvent(_ context.Context, event function.Event) (any, error) {
	return "got " + string(event.Data), nil
}

func throwsEvent(_ context.Context, _ function.Event) (any, error) {
	return nil, errors.New("the secret reason")
}

func verbatimEvent(_ context.Context, _ function.Event) (any, error) {
	return verbatim, nil
}
