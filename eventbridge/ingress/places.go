package ingress

import (
	"context"
	"net/http"

	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// inPlaces calls publish while the events of a request hold places among those that wait to be stored. It returns
// failure.ErrBusy without free places. A publisher holds at most as many as it leaves free, so that a flood is refused
// without refusing others.
func (h *handler) inPlaces(r *http.Request, publisher string, events int, publish func(context.Context)) error {
	key := placesKey(r.RemoteAddr, publisher)
	if !h.places.TryAcquire(key, int64(events)) {
		return failure.ErrBusy
	}
	defer h.places.Release(key, int64(events))
	publish(untilStored(r.Context()))
	return nil
}

// placesKey returns the namespace of a publisher if access rules identify it, and its address otherwise.
func placesKey(remote, namespace string) string {
	if namespace != "" {
		return "namespace " + namespace
	}
	return httplimit.KeyOfPort(remote).Name
}
