package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/failure"
)

var (
	// ErrNotConnected means that there is no connection to NATS now.
	ErrNotConnected = failure.ErrNotConnected
	// ErrNoStream means that no stream took the event, or that it does not exist.
	ErrNoStream = failure.ErrNoStream
	// ErrConsumerNotFound means that the server knows no consumer of that name.
	ErrConsumerNotFound = failure.ErrConsumerNotFound
	// ErrBeingDeleted means that another client has deleted a stream or a consumer a moment ago. It can be made again when the
	// server has removed all of it.
	ErrBeingDeleted = errors.New("deleted in NATS by another client, about to be recreated")
	// ErrStorageFull means that the stream cannot store more.
	ErrStorageFull = failure.ErrStorageFull
	// ErrInsufficientResources means that the server, or the account at it, has less storage than a
	// stream or an event needs.
	ErrInsufficientResources = failure.ErrInsufficientResources
	// ErrTooManyConsumers means that the stream or its account has as many consumers
	// as it may have.
	ErrTooManyConsumers = errors.New("NATS takes no more consumers")
	// ErrTooLarge means that a message is larger than the server takes.
	ErrTooLarge = failure.ErrTooLarge
	// ErrTimeout means that the server did not answer in time. Whether it did
	// what it was asked to do is unknown.
	ErrTimeout = failure.ErrTimeout
	// ErrBusy means that too many events wait for their confirmation already.
	ErrBusy = failure.ErrBusy
	// ErrInProcess means that the same event was published before and is not stored
	// yet, so that it is unknown whether it will be.
	ErrInProcess = failure.ErrInProcess
	// ErrStalled means that a consumer exists but does not answer.
	ErrStalled = errors.New("consumer sent no message or heartbeat in time")
	// ErrNotOrdered means that a consumer that is to be ordered is not, or not yet.
	ErrNotOrdered = errors.New("consumer is not ordered: update the controller first, and NATS to 2.11 or later")
	// ErrOverlappingSubjects means that two filter subjects of one consumer match
	// the same event, which JetStream refuses.
	ErrOverlappingSubjects = errors.New("filter subjects overlap")
	// ErrUndecodable means that a stored message is not a CloudEvent.
	ErrUndecodable = errors.New("message is not a CloudEvent")
	// ErrSettled means that a message was acknowledged, retried or rejected before.
	ErrSettled = errors.New("message is settled already")
)

// InvalidEventError is an event that cannot be published, with a reason for its
// publisher.
type InvalidEventError = failure.InvalidEventError

// APIError is JetStream's own answer, when none of the sentinels fits it.
type APIError = failure.APIError

// JetStream's error numbers that the client library does not name.
const (
	codeAccountLimits   jetstream.ErrorCode = 10002
	codeNoSuitablePeers jetstream.ErrorCode = 10005
	codeMaxConsumers    jetstream.ErrorCode = 10026
	codeMemoryExceeded  jetstream.ErrorCode = 10028
	codeStorageExceeded jetstream.ErrorCode = 10047
	codeStreamConfig    jetstream.ErrorCode = 10052
	codeStreamUpdate    jetstream.ErrorCode = 10069
	codeStoreFailed     jetstream.ErrorCode = 10077
	codeInProcess       jetstream.ErrorCode = 10158
	codeWrongSequence   jetstream.ErrorCode = 10164
	codeBatchesDisabled jetstream.ErrorCode = 10174
	codeBatchRepeat     jetstream.ErrorCode = 10201
	codeTooManyBatches  jetstream.ErrorCode = 10210
)

// textNoSpaceLeft is in the server's words when its disk is full.
const textNoSpaceLeft = "no space left"

// mapError turns an error of the client library into one of this package. It
// keeps what it does not know.
func mapError(err error) error {
	if err == nil {
		return nil
	}
	if jsErr, ok := errors.AsType[jetstream.JetStreamError](err); ok && jsErr.APIError() != nil {
		return mapAPIError(jsErr.APIError())
	}
	switch {
	case isAny(err, nats.ErrReconnectBufExceeded, nats.ErrDisconnected, nats.ErrConnectionClosed,
		nats.ErrConnectionReconnecting, nats.ErrConnectionDraining, nats.ErrInvalidConnection, nats.ErrStaleConnection):
		return fmt.Errorf("%w: %w", ErrNotConnected, err)
	case isAny(err, jetstream.ErrNoStreamResponse, nats.ErrNoResponders):
		return fmt.Errorf("%w: %w", ErrNoStream, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case isAny(err, jetstream.ErrAsyncPublishTimeout, nats.ErrTimeout, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	case strings.Contains(err.Error(), textNoSpaceLeft):
		return fmt.Errorf("%w: %w", ErrStorageFull, err)
	default:
		return err
	}
}

func mapAPIError(api *jetstream.APIError) error {
	err := &APIError{Code: api.Code, ErrorCode: int(api.ErrorCode), Description: api.Description}
	if sentinel := sentinelOf(api); sentinel != nil {
		return fmt.Errorf("%w: %w", sentinel, err)
	}
	return err
}

func sentinelOf(api *jetstream.APIError) error {
	switch code := api.ErrorCode; {
	case code == codeStoreFailed, strings.Contains(api.Description, textNoSpaceLeft):
		return ErrStorageFull
	case code == jetstream.JSErrCodeConsumerNotFound, code == jetstream.JSErrCodeConsumerDoesNotExist:
		return ErrConsumerNotFound
	case code == jetstream.JSErrCodeStreamNotFound:
		return ErrNoStream
	case code == jetstream.JSErrCodeOverlappingFilterSubjects, code == jetstream.JSErrCodeDuplicateFilterSubjects:
		return ErrOverlappingSubjects
	case code == codeInProcess:
		return ErrInProcess
	case code == codeMaxConsumers:
		return ErrTooManyConsumers
	case code == codeNoSuitablePeers, code == codeAccountLimits, code == codeMemoryExceeded, code == codeStorageExceeded:
		return ErrInsufficientResources
	default:
		return nil
	}
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
