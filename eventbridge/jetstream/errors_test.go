package jetstream

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/internal/broker"
)

func TestThePublishersErrorsAreThoseOfTheIngressInTheBrokersWords(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]error{
		broker.ErrTooLarge:              ingress.ErrTooLarge,
		broker.ErrBusy:                  ingress.ErrBusy,
		broker.ErrNotConnected:          ingress.ErrNotConnected,
		broker.ErrStorageFull:           ingress.ErrStorageFull,
		broker.ErrNoStream:              ingress.ErrNoStream,
		broker.ErrInsufficientResources: ingress.ErrInsufficientResources,
		broker.ErrInProcess:             ingress.ErrInProcess,
		broker.ErrTimeout:               ingress.ErrTimeout,
	} {
		answer := fmt.Errorf("%w: %w", err, &broker.APIError{Code: 503, Description: "no"})
		got := publishError(answer)
		require.ErrorIs(t, got, want)
		require.ErrorIs(t, got, err)
		require.EqualError(t, got, answer.Error())
		var status *ingress.StatusError
		require.NotErrorAs(t, got, &status, "%s says more than the status", err)
	}
	require.NoError(t, publishError(nil))
	foreign := errors.New("foreign")
	require.Equal(t, foreign, publishError(foreign))
}

func TestReasonAndStatusOfAPublishersErrorAreKept(t *testing.T) {
	t.Parallel()
	var invalid *ingress.InvalidEventError
	got := publishError(&broker.InvalidEventError{Reason: "no type"})
	require.ErrorAs(t, got, &invalid)
	require.Equal(t, "no type", invalid.Reason)
	require.EqualError(t, got, "no type")

	answer := fmt.Errorf("publish: %w", &broker.APIError{Code: 400, ErrorCode: 10054, Description: "message too big"})
	var status *ingress.StatusError
	got = publishError(answer)
	require.ErrorAs(t, got, &status)
	require.Equal(t, ingress.StatusError{Status: 400, Reason: "message too big"}, *status)
	require.EqualError(t, got, answer.Error())
}

func TestTheAdminStoresErrorsAreThoseOfTheAdminAPIInTheBrokersWords(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]error{
		broker.ErrDeadLetterNotFound: admin.ErrNotFound,
		broker.ErrConsumerNotFound:   admin.ErrNoConsumer,
		broker.ErrStorageFull:        admin.ErrStorageFull,
		broker.ErrNotConnected:       admin.ErrUnavailable,
		broker.ErrNoStream:           admin.ErrUnavailable,
		broker.ErrTimeout:            admin.ErrUnavailable,
		broker.ErrBusy:               admin.ErrUnavailable,
		context.Canceled:             context.Canceled,
	} {
		answer := fmt.Errorf("redrive dead letters: %w", err)
		got := adminError(answer)
		require.ErrorIs(t, got, want)
		require.EqualError(t, got, answer.Error())
	}
	require.NoError(t, adminError(nil))
}
