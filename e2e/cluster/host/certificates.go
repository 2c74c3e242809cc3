package host

import "os"

// CABundle is the authorities that this machine trusts, as PEM: on a network with a TLS proxy the proxy's is among them.
// It is empty on a machine that keeps them elsewhere.
func CABundle() string {
	content, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		return ""
	}
	return string(content)
}
