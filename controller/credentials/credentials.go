package credentials

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/flags"
)

// Options selects the Secrets that an installation needs.
type Options struct {
	Release   string // prefix of the names of its objects
	Namespace string
	// NATSUsers are the users of the chart's own NATS; empty: it has no users, or is not installed.
	NATSUsers []string
	// RegistryPush and RegistryPull are the addresses of the chart's own registry for builds and for nodes; empty: it
	// is not installed.
	RegistryPush, RegistryPull string
	// KEDANamespace is where KEDA looks for its certificate; empty: the scaler has no TLS, or the user provides the
	// certificates.
	KEDANamespace string
	// Timeout bounds how long to wait for a missing namespace.
	Timeout time.Duration
}

// DefaultOptions returns the options of an installation that sets none.
func DefaultOptions() *Options { return &Options{Timeout: 4 * time.Minute} }

// Flags declares the flags of "controller credentials".
func (o *Options) Flags(fs *flags.Set) {
	fs.String(&o.Release, "release", "what the names of the installation's objects begin with").NotEmpty()
	fs.String(&o.Namespace, "namespace", "namespace of the installation").NotEmpty()
	fs.Strings(&o.NATSUsers, "nats-users", "users of the installation's own NATS that need passwords")
	fs.String(&o.RegistryPush, "registry-push-address", "by which builds push to the installation's own registry")
	fs.String(&o.RegistryPull, "registry-pull-address", "by which nodes pull from it")
	fs.Require((o.RegistryPush == "") == (o.RegistryPull == ""),
		"--registry-push-address and --registry-pull-address belong together: set both or none")
	fs.String(&o.KEDANamespace, "keda-namespace", "namespace of KEDA, if it and the scaler need certificates")
	fs.Duration(&o.Timeout, "timeout", "how long to try again when something is missing or does not answer").MoreThan(0)
}

// Make writes the missing Secrets. It retries until the timeout, because KEDA's namespace may be created later, and
// others may write meanwhile.
func Make(ctx context.Context, objects client.Client, o *Options, log logr.Logger) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 2*time.Second, o.Timeout, true, func(ctx context.Context) (bool, error) {
		last = makeOnce(ctx, objects, o, log)
		if last != nil {
			log.Info("retrying", "reason", last.Error())
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

func makeOnce(ctx context.Context, objects client.Client, o *Options, log logr.Logger) error {
	known := map[types.NamespacedName]*corev1.Secret{}
	for _, name := range Needed(o) {
		secret := &corev1.Secret{}
		err := objects.Get(ctx, name, secret)
		switch {
		case err == nil:
			known[name] = secret
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("read Secret %s: %w", name, err)
		}
	}
	changed, err := Decide(o, known)
	if err != nil {
		return err
	}
	for _, secret := range changed {
		if secret.ResourceVersion == "" {
			err = objects.Create(ctx, secret)
		} else {
			err = objects.Update(ctx, secret)
		}
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("write Secret %s: namespace %q does not exist: create it, or set keda.namespace to KEDA's", secret.Name, secret.Namespace)
		}
		if err != nil {
			return fmt.Errorf("write Secret %s/%s: %w", secret.Namespace, secret.Name, err)
		}
		log.Info("Secret written", "namespace", secret.Namespace, "name", secret.Name)
	}
	return nil
}

// managedBy is the label of the Secrets of this package.
const managedBy = "rouse-credentials"

// Names of the Secrets, as the chart mounts them.
func (o *Options) chain() types.NamespacedName    { return o.named(o.Namespace, "-eventbridge") }
func (o *Options) nats() types.NamespacedName     { return o.named(o.Namespace, "-nats") }
func (o *Options) registry() types.NamespacedName { return o.named(o.Namespace, "-registry") }
func (o *Options) scaler() types.NamespacedName   { return o.named(o.Namespace, "-scaler") }
func (o *Options) keda() types.NamespacedName     { return o.named(o.KEDANamespace, "-scaler-keda") }

func (o *Options) named(namespace, suffix string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: o.Release + suffix}
}

// Needed returns the names of the Secrets that the options require.
func Needed(o *Options) []types.NamespacedName {
	all := []types.NamespacedName{o.chain()}
	if len(o.NATSUsers) > 0 {
		all = append(all, o.nats())
	}
	if o.RegistryPush != "" {
		all = append(all, o.registry())
	}
	if o.KEDANamespace != "" {
		all = append(all, o.scaler(), o.keda())
	}
	return all
}

// Decide returns the Secrets to write: those that do not exist, or lack something. known holds those that exist.
func Decide(o *Options, known map[types.NamespacedName]*corev1.Secret) ([]*corev1.Secret, error) {
	changed := appendChanged(nil, known, o.chain(), chainSecret(data(known, o.chain())), corev1.SecretTypeOpaque, nil)
	if len(o.NATSUsers) > 0 {
		changed = appendChanged(changed, known, o.nats(), natsSecret(o, data(known, o.nats())), corev1.SecretTypeOpaque, nil)
	}
	if o.RegistryPush != "" {
		labels := map[string]string{serverlessv1alpha2.LabelRemoteRegistry: serverlessv1alpha2.RemoteRegistryConfig}
		changed = appendChanged(changed, known, o.registry(), registrySecret(o, data(known, o.registry())), corev1.SecretTypeOpaque, labels)
	}
	if o.KEDANamespace == "" {
		return changed, nil
	}
	ours, kedas := data(known, o.scaler()), data(known, o.keda())
	if !fit(ours, kedas) {
		var err error
		if ours, kedas, err = certificates(o); err != nil {
			return nil, err
		}
	}
	changed = appendChanged(changed, known, o.scaler(), ours, corev1.SecretTypeTLS, nil)
	return appendChanged(changed, known, o.keda(), kedas, corev1.SecretTypeTLS, nil), nil
}

func data(known map[types.NamespacedName]*corev1.Secret, name types.NamespacedName) map[string][]byte {
	if secret := known[name]; secret != nil {
		return secret.Data
	}
	return nil
}

// chainSecret contains the key that the replicas of the eventbridge share.
func chainSecret(before map[string][]byte) map[string][]byte {
	after := maps.Clone(before)
	if after == nil {
		after = map[string][]byte{}
	}
	keep(after, "key")
	return after
}

// natsSecret contains each user's password, and all of them as the file that NATS includes.
func natsSecret(o *Options, before map[string][]byte) map[string][]byte {
	after := maps.Clone(before)
	if after == nil {
		after = map[string][]byte{}
	}
	var file strings.Builder
	for _, user := range o.NATSUsers {
		keep(after, user)
		fmt.Fprintf(&file, "rouse_%s_password: %q\n", user, after[user])
	}
	after["passwords.conf"] = []byte(file.String())
	return after
}

// registrySecret describes the registry to the controller, in Kyma's format.
func registrySecret(o *Options, before map[string][]byte) map[string][]byte {
	after := maps.Clone(before)
	if after == nil {
		after = map[string][]byte{}
	}
	keep(after, "password")
	keep(after, "accountKey")
	after["username"], after["isInternal"] = []byte("rouse"), []byte("true")
	after["pushRegAddr"], after["pullRegAddr"] = []byte(o.RegistryPush), []byte(o.RegistryPull)
	return after
}

// keep generates a missing password, of 26 letters and digits with 130 bits.
func keep(secret map[string][]byte, key string) {
	if len(secret[key]) == 0 {
		secret[key] = []byte(rand.Text())
	}
}

// appendChanged adds a Secret if its data differs from the existing one's.
func appendChanged(changed []*corev1.Secret, known map[types.NamespacedName]*corev1.Secret, name types.NamespacedName, data map[string][]byte,
	kind corev1.SecretType, labels map[string]string,
) []*corev1.Secret {
	before := known[name]
	if before != nil && maps.EqualFunc(before.Data, data, bytes.Equal) {
		return changed
	}
	after := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace}, Type: kind}
	if before != nil {
		after = before.DeepCopy()
	}
	after.Data = data
	if after.Labels == nil {
		after.Labels = map[string]string{}
	}
	maps.Copy(after.Labels, labels)
	after.Labels["app.kubernetes.io/part-of"], after.Labels["app.kubernetes.io/managed-by"] = "rouse", managedBy
	return append(changed, after)
}

const (
	validFor    = 10 * 365 * 24 * time.Hour // as the chart's are
	authorityOf = "ca.crt"
)

// fit reports whether two Secrets hold certificates of the same authority.
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

// certificates returns the scaler's certificate, for its Service, and KEDA's. The key of their authority is not kept.
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
		return nil, nil, fmt.Errorf("create the authority of the scaler's certificates: %w", err)
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
		return nil, fmt.Errorf("create the certificate of %s: %w", name, err)
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
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	return key, nil
}

// template is valid from an hour ago, because clocks differ. x509.CreateCertificate generates the serial number.
func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validFor)}
}
