package bare

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/routing"
)

// maxPending is more than any benchmark has connections, so that no request waits for it.
const maxPending = 4096

// Ingress is the simplest handler of events in binary mode: read the body, publish it with the event's headers, and answer
// after the stream has confirmed it. Its argument is the URL of the server.
func Ingress(ctx context.Context, ready func(string), args []string) error {
	conn, err := nats.Connect(args[0])
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(maxPending))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return rig.Serve(ctx, 0, ready, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = store(r.Context(), js, r.Header, body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
}

func store(ctx context.Context, js jetstream.JetStream, h http.Header, body []byte) error {
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
