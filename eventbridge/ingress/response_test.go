package ingress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPublishErrorsMapToHTTPStatuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err            error
		wantStatus     int
		wantReason     string
		wantRetryAfter bool
	}{
		"stored":                     {wantStatus: http.StatusNoContent},
		"an event that has no route": {err: &InvalidEventError{Reason: "no type"}, wantStatus: 400, wantReason: "no type"},
		"an event that is too large": {err: ErrTooLarge, wantStatus: 400, wantReason: "event is larger than the stream takes"},
		"too many events in flight":  {err: ErrBusy, wantStatus: 429, wantReason: "too many events wait to be stored", wantRetryAfter: true},
		"no connection":              {err: ErrNotConnected, wantStatus: 502, wantReason: "no connection to NATS JetStream server", wantRetryAfter: true},
		"no stream":                  {err: ErrNoStream, wantStatus: 504, wantReason: "cannot send to stream", wantRetryAfter: true},
		"a full stream":              {err: ErrStorageFull, wantStatus: 507, wantReason: "insufficient resources on target stream", wantRetryAfter: true},
		"a stream that is late":      {err: ErrTimeout, wantStatus: 503, wantReason: "no answer from the stream in time", wantRetryAfter: true},
		"an account's limit":         {err: ErrInsufficientResources, wantStatus: 503, wantReason: "the account or the server of NATS has no room for more", wantRetryAfter: true},
		"a repeat of what is stored now": {
			err: ErrInProcess, wantStatus: 503, wantReason: "an earlier publish of the same event is still being stored", wantRetryAfter: true,
		},
		"JetStream's own status":     {err: &StatusError{Status: 400, Reason: "message too big"}, wantStatus: 400, wantReason: "message too big"},
		"JetStream lacks resources":  {err: &StatusError{Status: 503, Reason: "insufficient"}, wantStatus: 503, wantReason: "insufficient", wantRetryAfter: true},
		"a status that is none":      {err: &StatusError{Status: 10077}, wantStatus: 500, wantReason: "internal error on backend"},
		"a publisher that went away": {err: context.Canceled, wantStatus: 500, wantReason: "internal error on backend"},
		"an error without a mapping": {err: errors.New("secret text"), wantStatus: 500, wantReason: "internal error on backend"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.err
			if err != nil {
				err = fmt.Errorf("publish: %w", err)
			}
			got := responseFor(err)
			require.Equal(t, tc.wantStatus, got.status)
			require.Equal(t, tc.wantReason, got.reason)
			require.Equal(t, tc.wantRetryAfter, got.retryAfter > 0)
		})
	}
}
