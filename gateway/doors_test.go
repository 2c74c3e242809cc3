package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// startDoors serves a Door with client certificates at trusted, one without at open, and an APIRule at plain, and returns the headers
// that the backend of all gets.
func startDoors(t *testing.T) (*outside, <-chan http.Header) {
	t.Helper()
	o := startOutside(t, func(d *Deps, _ *Options) { d.DoorToken = func() (string, error) { return "gateway-token", nil } })
	got := make(chan http.Header, 1)
	bridge := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Clone() }))
	t.Cleanup(bridge.Close)
	backend := o.behind(bridge)
	post := func(r *v2.Rule) { r.Methods = []v2.Method{"POST"} }
	ofDoor := backend
	ofDoor.Door = "shop/orders"
	trusted := exposed("trusted.example.com", ofDoor, post)
	trusted.AsksCertificates = true
	o.exposures <- []apirule.Exposure{trusted, exposed("open.example.com", ofDoor, post), exposed("plain.example.com", backend, post)}
	return o, got
}

// post sends a request with forged headers, on a connection for a server name, and returns the status.
func (o *outside) post(host, serverName string, client *loopback.Pair) int {
	o.t.Helper()
	config := o.client.Clone()
	config.ServerName = serverName
	if client != nil {
		pair, err := tls.X509KeyPair(client.Certificate, client.Key)
		require.NoError(o.t, err)
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	transport := &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", o.options.Entrance.TLSAddress)
		},
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost, "https://"+host+"/", http.NoBody)
	require.NoError(o.t, err)
	for _, name := range []string{door.HeaderDoor, door.HeaderToken, door.HeaderSender, door.HeaderCertificates, "X-Forwarded-Client-Cert"} {
		request.Header.Set(name, "forged")
	}
	answer, err := transport.RoundTrip(request)
	require.NoError(o.t, err)
	require.NoError(o.t, answer.Body.Close())
	return answer.StatusCode
}

func received(t *testing.T, got <-chan http.Header) http.Header {
	t.Helper()
	select {
	case header := <-got:
		return header
	case <-time.After(time.Minute):
		require.FailNow(t, "the bridge got no request")
		return nil
	}
}

func TestABridgeIsToldWhatTheGatewayAloneKnowsAndNothingThatAClientSays(t *testing.T) {
	t.Parallel()
	o, got := startDoors(t)
	client, err := loopback.MakeClient("commerce", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, o.post("trusted.example.com", "trusted.example.com", &client))
	header := received(t, got)
	require.Equal(t, []string{"shop/orders", "gateway-token", "127.0.0.1"}, []string{header.Get(door.HeaderDoor), header.Get(door.HeaderToken), header.Get(door.HeaderSender)})
	der, err := base64.StdEncoding.DecodeString(header.Get(door.HeaderCertificates))
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	require.Equal(t, "commerce", certificate.Subject.CommonName)
}

func TestACertificateIsAskedForAtHostsOfDoorsAlone(t *testing.T) {
	t.Parallel()
	o, got := startDoors(t)
	client, err := loopback.MakeClient("commerce", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, o.post("open.example.com", "open.example.com", &client))
	require.Empty(t, received(t, got).Values(door.HeaderCertificates), "a Door without")
	require.Equal(t, http.StatusOK, o.post("trusted.example.com", "trusted.example.com", nil))
	require.Empty(t, received(t, got).Values(door.HeaderCertificates), "the client has none")
	require.Equal(t, http.StatusOK, o.post("plain.example.com", "plain.example.com", &client))
	header := received(t, got)
	for _, name := range []string{door.HeaderDoor, door.HeaderToken, door.HeaderSender, door.HeaderCertificates} {
		require.Empty(t, header.Values(name), "an APIRule's backend")
	}
	require.Equal(t, http.StatusMisdirectedRequest, o.post("trusted.example.com", "plain.example.com", &client), "on a connection for another host")
}
