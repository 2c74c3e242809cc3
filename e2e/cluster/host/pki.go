package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// lifetime is the lifetime of all certificates: far longer than that of a test cluster.
const lifetime = 10 * 365 * 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

// KeyPair is a certificate with its key, both in PEM.
type KeyPair struct{ Certificate, Key string }

// CertificateRequest describes a certificate.
type CertificateRequest struct {
	Name   string   // common name; of a client, its user name
	Groups []string // of a client
	Hosts  []string // names and addresses of a server
}

// NewAuthority makes a self-signed certificate authority.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(name)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{certificate: certificate, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() string { return a.pem }

// Sign makes a key with a certificate.
func (a *Authority) Sign(request CertificateRequest) (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, err
	}
	template, err := newTemplate(request.Name)
	if err != nil {
		return KeyPair{}, err
	}
	template.Subject.Organization = request.Groups
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	for _, host := range request.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("sign the certificate of %s: %w", request.Name, err)
	}
	private, err := encodeKey(key)
	return KeyPair{Certificate: encode("CERTIFICATE", der), Key: private}, err
}

// NewKeyPair makes a key pair without a certificate, for signing service account tokens.
func NewKeyPair() (public, private string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", err
	}
	private, err = encodeKey(key)
	return encode("PUBLIC KEY", der), private, err
}

func newTemplate(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour), // clocks differ
		NotAfter:     now.Add(lifetime),
	}, nil
}

func encodeKey(key *ecdsa.PrivateKey) (string, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}
	return encode("EC PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// Policies is the user and the kubeconfig of the enforcement of NetworkPolicies.
const Policies = "network-policies"

// KubeletOf returns the name of the certificate and the kubeconfig of a node's kubelet.
func KubeletOf(member Member) string {
	if member.Name == NodeName {
		return "kubelet"
	}
	return "kubelet-" + member.Name
}

func asNode(member Member) CertificateRequest {
	return CertificateRequest{Name: "system:node:" + member.Name, Groups: []string{"system:nodes"}, Hosts: []string{member.Name, member.Address}}
}

// clients returns the certificates of the components, by the name of their kubeconfig.
func clients(members []Member) map[string]CertificateRequest {
	all := map[string]CertificateRequest{
		"admin":              {Name: "rouse-cluster-admin", Groups: []string{"system:masters"}},
		"controller-manager": {Name: "system:kube-controller-manager"},
		"scheduler":          {Name: "system:kube-scheduler"},
		"proxy":              {Name: "system:kube-proxy"},
	}
	for _, member := range members {
		all[KubeletOf(member)] = asNode(member)
	}
	if len(members) > 1 {
		all[Policies] = CertificateRequest{Name: Policies}
	}
	return all
}

// WritePKI writes all certificates, keys and kubeconfigs of a cluster with these nodes into its state directory.
func WritePKI(dir state.Dir, members []Member) error {
	authority, err := NewAuthority("rouse-cluster")
	if err != nil {
		return err
	}
	front, err := NewAuthority("rouse-cluster-front-proxy")
	if err != nil {
		return err
	}
	public, private, err := NewKeyPair()
	if err != nil {
		return err
	}
	files := map[string]string{
		dir.PKI("ca.crt"):             authority.PEM(),
		dir.PKI("front-proxy-ca.crt"): front.PEM(),
		dir.PKI("sa.pub"):             public,
		dir.PKI("sa.key"):             private,
	}
	type pair struct {
		name    string
		by      *Authority
		request CertificateRequest
	}
	pairs := []pair{
		{"apiserver", authority, CertificateRequest{Name: "kube-apiserver", Hosts: []string{
			NodeAddress, APIService, "127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		}}},
		{"apiserver-kubelet", authority, CertificateRequest{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}}},
		{"registry", authority, CertificateRequest{Name: "registry", Hosts: []string{"registry.kube-system.svc.cluster.local", RegistryAddress}}},
		{"front-proxy-client", front, CertificateRequest{Name: "front-proxy-client"}},
		{"keda", authority, CertificateRequest{Name: "keda-operator", Hosts: []string{
			"keda-operator", "keda-operator.keda", "keda-operator.keda.svc", "keda-operator.keda.svc.cluster.local",
			"keda-metrics-apiserver", "keda-metrics-apiserver.keda", "keda-metrics-apiserver.keda.svc",
			"keda-metrics-apiserver.keda.svc.cluster.local",
		}}},
	}
	for _, member := range members {
		pairs = append(pairs, pair{KubeletOf(member), authority, asNode(member)})
	}
	for _, pair := range pairs {
		signed, err := pair.by.Sign(pair.request)
		if err != nil {
			return err
		}
		files[dir.PKI(pair.name+".crt")], files[dir.PKI(pair.name+".key")] = signed.Certificate, signed.Key
	}
	for name, request := range clients(members) {
		signed, err := authority.Sign(request)
		if err != nil {
			return err
		}
		files[dir.KubeconfigOf(name)] = Kubeconfig(APIServer, authority.PEM(), signed)
	}
	files[dir.Kubeconfig()] = files[dir.KubeconfigOf("admin")]
	return writeAll(files)
}

func writeAll(files map[string]string) error {
	for path, content := range files {
		if err := state.Write(path, content); err != nil {
			return err
		}
	}
	return nil
}

// Kubeconfig returns a self-contained kubeconfig for one client.
func Kubeconfig(server, authority string, client KeyPair) string {
	data := base64.StdEncoding.EncodeToString
	return strings.TrimLeft(fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters:
- name: rouse-cluster
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: rouse-cluster
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: rouse-cluster
  context:
    cluster: rouse-cluster
    user: rouse-cluster
current-context: rouse-cluster
`, server, data([]byte(authority)), data([]byte(client.Certificate)), data([]byte(client.Key))), "\n")
}
