package dev

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

var (
	errHost  = errors.New("this API answers on this machine's loopback address alone")
	errToken = errors.New("the API needs the header Authorization: Bearer <token>; the token is in instance.json of the state folder")
)

// onLoopback reports whether the request names a loopback address as its host. A page whose name resolves to this machine
// sends its own name.
func onLoopback(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback()
}
