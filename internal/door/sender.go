package door

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

const (
	// MostCertificates bounds the chain that a client presents.
	MostCertificates = 4
	// mostAuthorities bounds those of a Door.
	mostAuthorities = 16
)

// bearer returns the token of the header Authorization.
func bearer(header http.Header) (string, bool) {
	value, err := single(header, "Authorization")
	scheme, token, _ := strings.Cut(value, " ")
	return strings.TrimSpace(token), err == nil && strings.EqualFold(scheme, "Bearer")
}

// verifyKey compares the key that the sender knows.
func verifyKey(r *Request, secrets []secret) (Verified, error) {
	token, given := bearer(r.Header)
	name, ok := equals(secrets, token)
	if !given || !ok {
		return Verified{}, ErrKey
	}
	return Verified{Key: name}, nil
}

// verifyToken checks the subject of a token. The gateway has verified the token itself, its issuer, audiences and time.
func (c *Door) verifyToken(r *Request, _ time.Time) (Verified, error) {
	token, given := bearer(r.Header)
	if !given {
		return Verified{}, ErrKey
	}
	if len(c.subjects) == 0 {
		return Verified{}, nil
	}
	parts := strings.Split(token, ".")
	var claims struct {
		Subject string `json:"sub"`
	}
	const three = 3
	if len(parts) != three {
		return Verified{}, ErrMalformed
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil || !slices.Contains(c.subjects, claims.Subject) {
		return Verified{}, ErrSubject
	}
	return Verified{}, nil
}

// clients are the client certificates that may send.
type clients struct {
	authorities *x509.CertPool
	subjects    map[string]bool
	revoked     map[[sha256.Size]byte]bool
}

func newClients(spec *v1alpha1.DoorClientCertificates) (*clients, error) {
	c := &clients{authorities: x509.NewCertPool(), subjects: map[string]bool{}, revoked: map[[sha256.Size]byte]bool{}}
	found := 0
	for rest := []byte(spec.CA); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil || !authority.IsCA {
			return nil, errors.New("spec.clientCertificates.ca: has something that is no certificate of an authority in PEM")
		}
		c.authorities.AddCert(authority)
		found++
	}
	if found == 0 || found > mostAuthorities {
		return nil, fmt.Errorf("spec.clientCertificates.ca: has %d certificates in PEM, must have 1 to %d", found, mostAuthorities)
	}
	for _, subject := range spec.Subjects {
		c.subjects[subject] = true
	}
	for i, text := range spec.Revoked {
		sum, err := hex.DecodeString(strings.ReplaceAll(text, ":", ""))
		if err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("spec.clientCertificates.revoked[%d]: is no SHA-256 in hexadecimal digits", i)
		}
		c.revoked[[sha256.Size]byte(sum)] = true
	}
	return c, nil
}

// verify verifies the chain at the time of the request, so that an authority that is taken away, a certificate that is revoked and
// one that ends count on open connections too.
func (c *clients) verify(r *Request, now time.Time) (Verified, error) {
	if len(r.Certificates) == 0 {
		return Verified{}, ErrCertificate
	}
	if len(r.Certificates) > MostCertificates {
		return Verified{}, ErrIssuer
	}
	leaf, intermediates := r.Certificates[0], x509.NewCertPool()
	for _, each := range r.Certificates[1:] {
		intermediates.AddCert(each)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: c.authorities, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return Verified{}, ErrIssuer
	}
	for _, each := range chains[0] {
		if c.revoked[sha256.Sum256(each.Raw)] {
			return Verified{}, ErrRevoked
		}
	}
	if !c.mayUse(leaf) {
		return Verified{}, ErrSubject
	}
	return Verified{Expires: leaf.NotAfter, Until: endOf(chains[0])}, nil
}

// endOf is when the first certificate of a chain ends.
func endOf(chain []*x509.Certificate) time.Time {
	end := chain[0].NotAfter
	for _, each := range chain[1:] {
		if each.NotAfter.Before(end) {
			end = each.NotAfter
		}
	}
	return end
}

func (c *clients) mayUse(leaf *x509.Certificate) bool {
	if c.subjects[leaf.Subject.CommonName] && !strings.HasPrefix(leaf.Subject.CommonName, "DNS:") && !strings.HasPrefix(leaf.Subject.CommonName, "URI:") {
		return true
	}
	if slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return c.subjects["DNS:"+name] }) {
		return true
	}
	for _, uri := range leaf.URIs {
		if c.subjects["URI:"+uri.String()] {
			return true
		}
	}
	return false
}
