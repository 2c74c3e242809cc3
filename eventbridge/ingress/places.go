package ingress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
)

// networkBits are what one client has of IPv6 addresses.
const networkBits = 64

// inPlaces calls publish while a request's events have places among those that wait to be stored, and returns ErrBusy when there are none
// for them. A publisher has no more than it leaves free: one that sends as much as it can is told to come again, and nobody else is.
func (h *handler) inPlaces(r *http.Request, publisher string, events int, publish func(context.Context)) error {
	key := placesKey(r.RemoteAddr, publisher)
	if !h.places.TryAcquire(key, int64(events)) {
		return ErrBusy
	}
	defer h.places.Release(key, int64(events))
	publish(untilStored(r.Context()))
	return nil
}

// placesKey is the namespace of a publisher where rules for publishers make it known, and its address elsewhere.
func placesKey(remote, namespace string) string {
	if namespace != "" {
		return "namespace " + namespace
	}
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	if address, err := netip.ParseAddr(host); err == nil && address.Is6() && !address.Is4In6() {
		if network, err := address.WithZone("").Prefix(networkBits); err == nil {
			return network.String()
		}
	}
	return host
}
