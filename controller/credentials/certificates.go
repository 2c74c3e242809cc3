package credentials

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	validFor    = 10 * 365 * 24 * time.Hour // as the chart's are
	authorityOf = "ca.crt"
)

// fit tells that two Secrets have certificates of one authority.
func fit(ours, kedas map[string][]byte) bool {
	for _, each := range []map[string][]byte{ours, kedas} {
		for _, key := range []string{authorityOf, corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
			if len(each[key]) == 0 {
				return false
			}
		}
	}
	return bytes.Equal(ours[authorityOf], kedas[authorityOf])
}

// certificates are the scaler's, for its Service, and KEDA's, of an authority whose key is not kept.
func certificates(o *Options) (ours, kedas map[string][]byte, err error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	authority := template(o.scaler().Name)
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	signed, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("make the authority of the scaler's certificates: %w", err)
	}
	if authority, err = x509.ParseCertificate(signed); err != nil {
		return nil, nil, err
	}
	short := o.scaler().Name + "." + o.Namespace + ".svc"
	if ours, err = issue(authority, key, short+".cluster.local", short+".cluster.local", short); err != nil {
		return nil, nil, err
	}
	kedas, err = issue(authority, key, "keda")
	return ours, kedas, err
}

func issue(authority *x509.Certificate, by *ecdsa.PrivateKey, name string, hosts ...string) (map[string][]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	leaf := template(name)
	leaf.DNSNames, leaf.KeyUsage = hosts, x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	signed, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), by)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of %s: %w", name, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key of %s: %w", name, err)
	}
	return map[string][]byte{
		authorityOf:             pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}),
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// template is valid from an hour ago on: clocks differ. Go makes up the serial number.
func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validFor)}
}
