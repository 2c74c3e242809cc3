package function

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// follows makes a Function use the ConfigMap rates, the Secrets token and
// certificates, and perhaps the ConfigMap extra, and follow them.
func follows(fn *v1alpha2.Function) {
	uses(fn)
	fn.Annotations = map[string]string{v1alpha2.AnnotationRestartOnChange: "true"}
}

func uses(fn *v1alpha2.Function) {
	fn.Spec.Env = []corev1.EnvVar{
		{Name: "PLAIN", Value: "x"},
		{Name: "RATE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "rates"}, Key: "eur",
		}}},
		{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "token"}, Key: "value",
		}}},
		{Name: "EXTRA", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "extra"}, Key: "value", Optional: new(true),
		}}},
	}
	fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "certificates", MountPath: "/certificates"}}
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: data}
}

func secret(name string, data map[string]string) *corev1.Secret {
	built := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		built.Data[key] = []byte(value)
	}
	return built
}

// configuration is what the pods of the Function follow at the moment.
func (b *bench) configuration() string {
	b.t.Helper()
	_, err := b.reconcile()
	require.NoError(b.t, err)
	deployment := &appsv1.Deployment{}
	require.NoError(b.t, b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "shop", Name: "price"}, deployment))
	return deployment.Spec.Template.Annotations[resources.AnnotationConfiguration]
}

func (b *bench) write(object client.Object) {
	b.t.Helper()
	require.NoError(b.t, b.client.Update(b.t.Context(), object))
}

func TestPodsFollowTheirConfigMapsAndSecretsWhenAsked(t *testing.T) {
	t.Parallel()
	rates := configMap("rates", map[string]string{"eur": "1", "usd": "2"})
	token := secret("token", map[string]string{"value": "hush"})
	certificates := secret("certificates", map[string]string{"tls.crt": "a"})
	b := newBench(t, true, newFunction(follows), rates, token, certificates)
	last := b.configuration()
	require.Len(t, last, 16)
	require.Equal(t, last, b.configuration(), "nothing has changed")

	changed := func(why string) {
		t.Helper()
		now := b.configuration()
		require.NotEqual(t, last, now, why)
		last = now
	}
	rates.Data["usd"] = "3"
	b.write(rates)
	require.Equal(t, last, b.configuration(), "the Function does not use this key")
	rates.Data["eur"] = "4"
	b.write(rates)
	changed("a key of a ConfigMap")
	token.Data["value"] = []byte("psst")
	b.write(token)
	changed("a key of a Secret")
	certificates.Data["tls.key"] = []byte("b")
	b.write(certificates)
	changed("a mounted Secret has another file")
	require.NoError(t, b.client.Create(t.Context(), configMap("extra", map[string]string{"value": "1"})))
	changed("an optional ConfigMap that comes")
	require.NoError(t, b.client.Delete(t.Context(), configMap("extra", nil)))
	changed("an optional ConfigMap that goes")

	require.NoError(t, b.client.Delete(t.Context(), token))
	require.Equal(t, last, b.configuration(), "pods without it would not start")
	delete(rates.Data, "eur")
	b.write(rates)
	require.Equal(t, last, b.configuration(), "pods without the key would not start")
}

func TestNothingIsReadUnlessTheUserAsks(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha2.Function){
		"no annotation": uses,
		"the annotation is false": func(fn *v1alpha2.Function) {
			follows(fn)
			fn.Annotations[v1alpha2.AnnotationRestartOnChange] = "false"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, true)
			b.live = nil
			s := newScope(func(s *scope) { s.fn = newFunction(change) })
			require.NoError(t, b.readConfiguration(t.Context(), s))
			require.Empty(t, s.configuration)
			require.Empty(t, indexReferences(s.fn))
		})
	}
}

func TestFunctionsAreFoundByWhatTheyFollow(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"ConfigMap/extra", "ConfigMap/rates", "Secret/certificates", "Secret/token"},
		indexReferences(newFunction(follows)))
}

func TestAShortSecretCannotBeGuessedFromItsHash(t *testing.T) {
	t.Parallel()
	references := []reference{{referent: referent{kindSecret, "pin"}, key: "value"}}
	hash := func(uid types.UID) string {
		sum, complete := configurationHash(references, map[referent]*content{
			references[0].referent: {salt: uid, values: map[string][]byte{"value": []byte("1234")}},
		})
		require.True(t, complete)
		return sum
	}
	require.NotEqual(t, hash("uid-of-one"), hash("uid-of-another"), "the value alone must not decide")
}

func TestTheCacheHoldsNoValuesOfSecrets(t *testing.T) {
	t.Parallel()
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "token", Labels: map[string]string{"a": "b"},
		Annotations:   map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"data":{}}`},
		ManagedFields: []metav1.ManagedFieldsEntry{{}},
	}}
	_, err := withoutContent(object)
	require.NoError(t, err)
	require.Equal(t, metav1.ObjectMeta{Name: "token", Labels: map[string]string{"a": "b"}}, object.ObjectMeta)
}
