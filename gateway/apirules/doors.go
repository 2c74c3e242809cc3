package apirules

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/door"
)

// introduce tells a bridge what the gateway alone knows of a request to a Door. The caller's headers of these names are gone by then.
func (x *exchange) introduce(out *http.Request, name string) bool {
	if x.all.deps.DoorToken != nil {
		token, err := x.all.deps.DoorToken()
		if err != nil {
			x.all.deps.Log.Error(err, "cannot pass on requests to Doors")
			return false
		}
		out.Header[door.HeaderToken] = []string{token}
	}
	out.Header[door.HeaderDoor] = []string{name}
	out.Header[door.HeaderSender] = []string{forward.Of(out).Key.Name}
	if chain := certificatesOf(out); chain != "" {
		out.Header[door.HeaderCertificates] = []string{chain}
	}
	return true
}

// certificatesOf returns what the client has presented on this connection. Nobody has verified it but that the client has the key.
func certificatesOf(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || len(r.TLS.PeerCertificates) > door.MostCertificates {
		return ""
	}
	texts := make([]string, len(r.TLS.PeerCertificates))
	for i, certificate := range r.TLS.PeerCertificates {
		texts[i] = base64.StdEncoding.EncodeToString(certificate.Raw)
	}
	return strings.Join(texts, ",")
}
