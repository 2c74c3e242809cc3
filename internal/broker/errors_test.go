package broker

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestMapError(t *testing.T) {
	t.Parallel()
	other := errors.New("something else")
	api := func(code int, number jetstream.ErrorCode, text string) error {
		return &jetstream.APIError{Code: code, ErrorCode: number, Description: text}
	}
	tests := map[string]struct {
		err, want error
	}{
		"nothing":                  {},
		"what it does not know":    {other, other},
		"a cancelled context":      {context.Canceled, context.Canceled},
		"a context's deadline":     {context.DeadlineExceeded, ErrTimeout},
		"a lost connection":        {nats.ErrDisconnected, ErrNotConnected},
		"a reconnect":              {nats.ErrReconnectBufExceeded, ErrNotConnected},
		"a closed connection":      {nats.ErrConnectionClosed, ErrNotConnected},
		"no responders":            {jetstream.ErrNoStreamResponse, ErrNoStream},
		"a large payload":          {nats.ErrMaxPayload, ErrTooLarge},
		"a stalled publisher":      {jetstream.ErrTooManyStalledMsgs, ErrBusy},
		"a missing confirmation":   {jetstream.ErrAsyncPublishTimeout, ErrTimeout},
		"a full disk":              {errors.New("write: no space left on device"), ErrStorageFull},
		"a full stream":            {api(503, 10077, "maximum bytes exceeded"), ErrStorageFull},
		"a full disk in an answer": {api(500, 10000, "no space left on device"), ErrStorageFull},
		"no consumer":              {jetstream.ErrConsumerNotFound, ErrConsumerNotFound},
		"no stream":                {jetstream.ErrStreamNotFound, ErrNoStream},
		"overlapping filters":      {api(400, 10138, "overlap"), ErrOverlappingSubjects},
		"too few peers":            {api(400, 10005, "no suitable peers"), ErrInsufficientResources},
		"an account's limit":       {api(400, 10002, "resource limits exceeded for account"), ErrInsufficientResources},
		"a repeat in process":      {api(409, 10158, "duplicate message id is in process"), ErrInProcess},
		"too little storage":       {api(500, 10047, "insufficient storage"), ErrInsufficientResources},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorIs(t, mapError(tc.err), tc.want)
		})
	}
}

func TestMapErrorKeepsTheCodeOfJetStream(t *testing.T) {
	t.Parallel()
	for name, code := range map[jetstream.ErrorCode]int{10054: 400, 10023: 503, 10076: 503} {
		err := mapError(&jetstream.APIError{Code: code, ErrorCode: name, Description: "no"})
		api, ok := errors.AsType[*APIError](err)
		require.True(t, ok)
		require.Equal(t, APIError{Code: code, ErrorCode: int(name), Description: "no"}, *api)
		require.ErrorContains(t, err, "JetStream: no (code")
	}
}
