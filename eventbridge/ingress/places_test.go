package ingress

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// slowPublisher stores nothing until it is let go.
type slowPublisher struct {
	Publisher
	storing atomic.Int64
	letGo   chan struct{}
}

func (s *slowPublisher) Publish(context.Context, *cloudevent.Event) error {
	s.storing.Add(1)
	<-s.letGo
	return nil
}

// byToken makes the token the namespace of a publisher.
func byToken(_ context.Context, token string) (Permission, error) {
	return func(ev *cloudevent.Event, _ string) error {
		ev.Publisher = token
		return nil
	}, nil
}

func TestAPublisherLeavesHalfOfThePlacesOfEventsThatWaitToBeStoredToOthers(t *testing.T) {
	t.Parallel()
	for name, identify := range map[string]func(r *http.Request, who string){
		"by address": func(r *http.Request, who string) {
			r.RemoteAddr = map[string]string{"red": "10.0.0.1:1", "shop": "10.0.0.2:1"}[who]
		},
		"by network in IPv6": func(r *http.Request, who string) {
			r.RemoteAddr = map[string]string{"red": "[fd00::1]:1", "shop": "[fd00:0:0:1::1]:1"}[who]
		},
		"by namespace, if known": func(r *http.Request, who string) { r.Header.Set("Authorization", "Bearer "+who) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const places = 8
				store, options := &slowPublisher{letGo: make(chan struct{})}, DefaultOptions()
				options.MaxPending = places
				handler := New(Deps{
					Publisher: store, Authorize: byTokenIf(strings.Contains(name, "namespace")), Destination: "nats://here",
					Connected: func() bool { return true }, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
				}, options)
				var all sync.WaitGroup
				publish := func(who string) *httptest.ResponseRecorder {
					answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, publishPath, strings.NewReader("{}"))
					for name, value := range binary(nil) {
						request.Header.Set(name, value)
					}
					identify(request, who)
					all.Go(func() { handler.ServeHTTP(answer, request) })
					synctest.Wait()
					return answer
				}
				for range places / 2 {
					publish("red")
				}
				refused := publish("red")
				require.Equal(t, http.StatusTooManyRequests, refused.Code)
				require.NotEmpty(t, refused.Header().Get("Retry-After"))
				other := publish("shop")
				require.EqualValues(t, places/2+1, store.storing.Load())
				close(store.letGo)
				all.Wait()
				require.Equal(t, http.StatusNoContent, other.Code)
				again := publish("red")
				require.Equal(t, http.StatusNoContent, again.Code, "places are given back")
			})
		})
	}
}

func byTokenIf(known bool) Authorize {
	if known {
		return byToken
	}
	return nil
}
