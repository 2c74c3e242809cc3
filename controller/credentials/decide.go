package credentials

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// managedBy is the label of what this package made.
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

// Needed are the names of the Secrets that the options ask for.
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

// Decide returns what has to be written of the Secrets that are needed: those that are not there, or lack something. known are those that are.
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

// chainSecret has the key that the replicas of the eventbridge share.
func chainSecret(before map[string][]byte) map[string][]byte {
	after := maps.Clone(before)
	if after == nil {
		after = map[string][]byte{}
	}
	keep(after, "key")
	return after
}

// natsSecret has each user's password, and all of them as the file that NATS includes.
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

// registrySecret describes the registry to the controller: the format is Kyma's.
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

// keep makes a password up, of 26 letters and digits with 130 bits, where there is none.
func keep(secret map[string][]byte, key string) {
	if len(secret[key]) == 0 {
		secret[key] = []byte(rand.Text())
	}
}

// appendChanged adds a Secret if what is there is not so.
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
