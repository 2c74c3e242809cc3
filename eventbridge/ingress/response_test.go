package ingress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/broker"
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
		"an event that has no route": {err: &broker.InvalidEventError{Reason: "no type"}, wantStatus: 400, wantReason: "no type"},
		"an event that is too large": {err: broker.ErrTooLarge, wantStatus: 400, wantReason: "event is larger than the stream takes"},
		"too many events in flight":  {err: broker.ErrBusy, wantStatus: 429, wantReason: "too many events wait to be stored", wantRetryAfter: true},
		"no connection":              {err: broker.ErrNotConnected, wantStatus: 502, wantReason: "no connection to NATS JetStream server", wantRetryAfter: true},
		"no stream":                  {err: broker.ErrNoStream, wantStatus: 504, wantReason: "cannot send to stream", wantRetryAfter: true},
		"a full stream":              {err: broker.ErrStorageFull, wantStatus: 507, wantReason: "insufficient resources on target stream", wantRetryAfter: true},
		"a stream that is late":      {err: broker.ErrTimeout, wantStatus: 503, wantReason: "no answer from the stream in time", wantRetryAfter: true},
		"an account's limit":         {err: broker.ErrInsufficientResources, wantStatus: 503, wantReason: "the account or the server of NATS has no room for more", wantRetryAfter: true},
		"a repeat of what is stored now": {
			err: broker.ErrInProcess, wantStatus: 503, wantReason: "an earlier publish of the same event is still being stored", wantRetryAfter: true,
		},
		"JetStream's own status":     {err: &broker.APIError{Code: 400, Description: "message too big"}, wantStatus: 400, wantReason: "message too big"},
		"JetStream lacks resources":  {err: &broker.APIError{Code: 503, Description: "insufficient"}, wantStatus: 503, wantReason: "insufficient", wantRetryAfter: true},
		"a status that is none":      {err: &broker.APIError{Code: 10077}, wantStatus: 500, wantReason: "internal error on backend"},
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
