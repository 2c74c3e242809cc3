package builder

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// systemBundles are where distributions keep the certificates that they trust.
var systemBundles = [...]string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

// trustVariables are read by npm and the scripts of packages, pip, OpenSSL, curl and Git.
var trustVariables = [...]string{
	"NODE_EXTRA_CA_CERTS", "npm_config_cafile", "PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
}

// trust writes the system's certificates and those of ca to file, and returns the variables that make
// programs trust them. Without ca, every program trusts what it does anyway.
func trust(ca []byte, file string) ([]string, error) {
	if len(ca) == 0 {
		return nil, nil
	}
	joined := append(append(systemRoots(), '\n'), ca...)
	if err := os.WriteFile(file, joined, 0o600); err != nil {
		return nil, fmt.Errorf("write the trusted certificates: %w", err)
	}
	env := make([]string, 0, len(trustVariables))
	for _, variable := range trustVariables {
		env = append(env, variable+"="+file)
	}
	return env, nil
}

// systemRoots are the certificates of the image, or the public ones where it has none, as slim images do.
func systemRoots() []byte {
	for _, file := range append([]string{os.Getenv("SSL_CERT_FILE")}, systemBundles[:]...) {
		if text, err := os.ReadFile(file); err == nil { //nolint:gosec // where certificates are
			return text
		}
	}
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		roots.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
	}
	return roots.Bytes()
}
