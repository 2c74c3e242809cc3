package function

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

// follows makes a Function use and follow the ConfigMap rates, the Secrets token and certificates, and optionally the
// ConfigMap extra.
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

// configuration returns the configuration hash of the Function's pods.
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
	require.Equal(t, last, b.configuration(), "the hash must not change")

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

func TestConfigurationIsReadOnlyWhenTheFunctionFollowsIt(t *testing.T) {
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

func TestFunctionsAreIndexedByTheObjectsTheyFollow(t *testing.T) {
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

// bindingRuntime is the field manager of servicebinding.io's runtime, which writes by Update.
const bindingRuntime = client.FieldOwner("runtime")

// project adds to a pod template what the projector of servicebinding.io's runtime adds for a ServiceBinding of the UID
// 1 and the name db, with a variable for the key password. The end-to-end test uses the projector itself.
func project(template *corev1.PodTemplateSpec, secret string) {
	unproject(template, secret)
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations["projector.servicebinding.io/secret-1"] = secret
	template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: "servicebinding-1", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o644), Sources: []corev1.VolumeProjection{{
			Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: secret}},
		}}},
	}})
	for i := range template.Spec.Containers {
		container := &template.Spec.Containers[i]
		if !slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == "SERVICE_BINDING_ROOT" }) {
			container.Env = append(container.Env, corev1.EnvVar{Name: "SERVICE_BINDING_ROOT", Value: "/bindings"})
		}
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "servicebinding-1", MountPath: "/bindings/db", ReadOnly: true})
		container.Env = append(container.Env, corev1.EnvVar{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: "password"},
		}})
	}
}

// unproject removes it, with all variables of the Secret.
func unproject(template *corev1.PodTemplateSpec, secret string) {
	delete(template.Annotations, "projector.servicebinding.io/secret-1")
	template.Spec.Volumes = slices.DeleteFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "servicebinding-1" })
	for i := range template.Spec.Containers {
		container := &template.Spec.Containers[i]
		container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "servicebinding-1" })
		container.Env = slices.DeleteFunc(container.Env, func(v corev1.EnvVar) bool {
			return v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil && v.ValueFrom.SecretKeyRef.Name == secret
		})
	}
}

// writeAs changes the newest Deployment as another client would.
func (w *fixture) writeAs(owner client.FieldOwner, deployment *appsv1.Deployment, change func(*corev1.PodTemplateSpec)) {
	w.t.Helper()
	w.eventually(func() error {
		if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		change(&deployment.Spec.Template)
		return w.Update(w.t.Context(), deployment, owner)
	})
}

// isBound reports whether all of the binding is in a template.
func isBound(template *corev1.PodTemplateSpec) bool {
	container := template.Spec.Containers[0]
	return template.Annotations["projector.servicebinding.io/secret-1"] == "db" &&
		slices.ContainsFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "servicebinding-1" && v.Projected != nil }) &&
		slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/bindings/db" }) &&
		slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == "PASSWORD" && v.ValueFrom != nil }) &&
		slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == "SERVICE_BINDING_ROOT" })
}

// awaitSettled waits until the controller has handled all previous changes.
func (w *fixture) awaitSettled(deployment *appsv1.Deployment) {
	w.t.Helper()
	for version, rounds := "", 0; rounds < 60; rounds++ {
		require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKeyFromObject(deployment), deployment))
		if deployment.ResourceVersion == version {
			return
		}
		version = deployment.ResourceVersion
		settle()
	}
	require.Fail(w.t, "the controller does not come to rest")
}

// requireSettled asserts that the controller no longer writes to a Deployment.
func (w *fixture) requireSettled(deployment *appsv1.Deployment) {
	w.t.Helper()
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	version := deployment.ResourceVersion
	settle()
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	require.Equal(w.t, version, deployment.ResourceVersion, "it was written to")
}

func keepsBindings(w *fixture) {
	t := w.t
	fn := w.create(scaled(0, 5), func(fn *v1alpha2.Function) { fn.Name = "bound" })
	deployment := w.deployment(fn)
	w.scale(deployment, 0)
	w.writeAs(bindingRuntime, deployment, func(template *corev1.PodTemplateSpec) { project(template, "db") })
	w.requireSettled(deployment)
	require.True(t, isBound(&deployment.Spec.Template), "%+v", deployment.Spec.Template)

	w.writeAs("kubectl-edit", deployment, func(template *corev1.PodTemplateSpec) {
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: "added"}, corev1.Volume{Name: "servicebinding-2"})
		container := &template.Spec.Containers[0]
		container.Env = append(container.Env, corev1.EnvVar{Name: "ADDED", Value: "by hand"})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "added", MountPath: "/added"})
	})
	await(w, deployment, "only manual additions are removed", func(d *appsv1.Deployment) bool {
		container := d.Spec.Template.Spec.Containers[0]
		return len(d.Spec.Template.Spec.Volumes) == 1 && len(container.VolumeMounts) == 1 &&
			!slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == "ADDED" })
	})
	require.True(t, isBound(&deployment.Spec.Template), "%+v", deployment.Spec.Template)

	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Env = []corev1.EnvVar{{Name: "NEW", Value: "1"}} })
	await(w, deployment, "a change of the Function arrives", func(d *appsv1.Deployment) bool {
		return slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "NEW" })
	})
	require.True(t, isBound(&deployment.Spec.Template), "%+v", deployment.Spec.Template)
	require.Equal(t, int32(0), *deployment.Spec.Replicas, "a binding must not wake a Function")
	w.requireSettled(deployment)

	w.writeAs(bindingRuntime, deployment, func(template *corev1.PodTemplateSpec) { unproject(template, "db") })
	generation := deployment.Generation
	w.requireSettled(deployment)
	require.Equal(t, generation, deployment.Generation, "the end of a binding replaces pods once")
	require.Empty(t, deployment.Spec.Template.Spec.Volumes)
	w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha2.ReasonSpecValidated)
}

func keepsBindingsOfAWebhook(w *fixture) {
	t := w.t
	w.projectAtAdmission("db").Store(true)
	fn := w.create(func(fn *v1alpha2.Function) { fn.Name = "admitted" })
	deployment := w.deployment(fn)
	require.True(t, isBound(&deployment.Spec.Template), "%+v", deployment.Spec.Template)
	w.requireSettled(deployment)

	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Env = []corev1.EnvVar{{Name: "NEW", Value: "1"}} })
	await(w, deployment, "a change of the Function arrives", func(d *appsv1.Deployment) bool {
		return slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "NEW" })
	})
	require.True(t, isBound(&deployment.Spec.Template), "%+v", deployment.Spec.Template)
	w.requireSettled(deployment)
}

// Fields that a webhook removed are missing from the object but not from the managed fields.
func restoresWhatAWebhookTookOut(w *fixture) {
	t := w.t
	active := w.projectAtAdmission("db")
	fn := w.create(func(fn *v1alpha2.Function) {
		fn.Name = "stripped"
		fn.Spec.Env = []corev1.EnvVar{{Name: "OWN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "password",
		}}}}
	})
	deployment := w.deployment(fn)
	hasOwn := func(d *appsv1.Deployment) bool {
		return slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "OWN" })
	}
	require.True(t, hasOwn(deployment))
	active.Store(true)
	w.writeAs(bindingRuntime, deployment, func(template *corev1.PodTemplateSpec) {
		template.Annotations["projector.servicebinding.io/secret-1"] = "db"
	})
	require.False(t, hasOwn(deployment))
	w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonInvalidSpec)

	active.Store(false)
	w.writeAs(bindingRuntime, deployment, func(template *corev1.PodTemplateSpec) { unproject(template, "db") })
	await(w, deployment, "without the binding it has its variable", hasOwn)
	w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha2.ReasonSpecValidated)
}

// projectAtAdmission serves a webhook that projects into each Deployment of the namespace, like the runtime's, while
// the returned value is true.
func (w *fixture) projectAtAdmission(secret string) *atomic.Bool {
	active := &atomic.Bool{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		review, deployment := &admissionv1.AdmissionReview{}, &appsv1.Deployment{}
		if json.NewDecoder(r.Body).Decode(review) != nil || json.Unmarshal(review.Request.Object.Raw, deployment) != nil {
			http.Error(rw, "no review of a Deployment", http.StatusBadRequest)
			return
		}
		if active.Load() {
			project(&deployment.Spec.Template, secret)
		}
		patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template", "value": deployment.Spec.Template}})
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, Patch: patch, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch),
		}
		review.Request = nil
		_ = json.NewEncoder(rw).Encode(review)
	}))
	w.t.Cleanup(server.Close)
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "interceptor.servicebinding.io", AdmissionReviewVersions: []string{"v1"}, FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			SideEffects:       ptr.To(admissionregistrationv1.SideEffectClassNone),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.namespace}},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: new(server.URL), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"*"}, Resources: []string{"deployments"}},
			}},
		}},
	}
	require.NoError(w.t, w.Create(w.t.Context(), webhook))
	w.t.Cleanup(func() { _ = w.Delete(context.Background(), webhook) })
	// The API server needs a moment to load the webhook.
	active.Store(true)
	defer active.Store(false)
	probe := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "probe"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
	require.Eventually(w.t, func() bool {
		created := probe.DeepCopy()
		return w.Create(w.t.Context(), created, client.DryRunAll) == nil && isBound(&created.Spec.Template)
	}, timeout, tick, "the webhook is not called")
	return active
}

func refusesWhatABindingClaims(w *fixture) {
	t := w.t
	own := corev1.EnvVar{Name: "OWN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "password",
	}}}
	fn := w.create(func(fn *v1alpha2.Function) { fn.Name, fn.Spec.Env = "claimed", []corev1.EnvVar{own} })
	deployment := w.deployment(fn)
	w.writeAs(bindingRuntime, deployment, func(template *corev1.PodTemplateSpec) { project(template, "db") })
	condition := w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonInvalidSpec)
	require.Contains(t, condition.Message, "The variable OWN takes a key of the Secret db, which a ServiceBinding projects")
	w.requireSettled(deployment)

	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Env = []corev1.EnvVar{{Name: "PASSWORD", Value: "mine"}} })
	require.Eventually(t, func() bool {
		found := w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonInvalidSpec)
		return strings.Contains(found.Message, "A ServiceBinding sets the variable PASSWORD")
	}, timeout, tick)
	w.requireSettled(deployment)

	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Env = nil })
	w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha2.ReasonSpecValidated)
	w.requireSettled(deployment)
	require.True(t, isBound(&deployment.Spec.Template))

	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Env = []corev1.EnvVar{own} })
	w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonInvalidSpec)
	w.writeAs(bindingRuntime, deployment, func(template *corev1.PodTemplateSpec) { unproject(template, "db") })
	w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha2.ReasonSpecValidated)
	await(w, deployment, "without the binding it has its variable", func(d *appsv1.Deployment) bool {
		return slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "OWN" })
	})
}

func followsBoundSecrets(w *fixture) {
	t := w.t
	fn := w.create(func(fn *v1alpha2.Function) {
		fn.Name, fn.Annotations = "rotated", map[string]string{v1alpha2.AnnotationRestartOnChange: "true"}
	})
	deployment := w.deployment(fn)
	before := deployment.Spec.Template.Annotations[resources.AnnotationConfiguration]
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "db"}, StringData: map[string]string{"password": "1"}}
	require.NoError(t, w.Create(t.Context(), secret))
	w.writeAs(bindingRuntime, deployment, func(template *corev1.PodTemplateSpec) { project(template, "db") })
	changes := func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations[resources.AnnotationConfiguration] != before
	}
	await(w, deployment, "pods follow the bound Secret", changes)

	before = deployment.Spec.Template.Annotations[resources.AnnotationConfiguration]
	update(w, secret, func(secret *corev1.Secret) { secret.Data["password"] = []byte("2") })
	await(w, deployment, "a rotated Secret replaces the pods", changes)
	require.True(t, isBound(&deployment.Spec.Template))

	before = deployment.Spec.Template.Annotations[resources.AnnotationConfiguration]
	w.awaitSettled(deployment)
	require.NoError(t, w.Delete(t.Context(), secret))
	w.requireSettled(deployment)
	require.False(t, changes(deployment), "pods without the Secret would not start")
}

func TestFunctionsAreIndexedByTheirBoundSecrets(t *testing.T) {
	t.Parallel()
	deployment := &appsv1.Deployment{}
	require.Empty(t, indexBound(deployment))
	project(&deployment.Spec.Template, "db")
	require.Equal(t, []string{"db"}, indexBound(deployment))
	require.Empty(t, indexBound(&corev1.Pod{}))
}

func TestMissingBoundSecretsAreReported(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction())
	_, err := b.reconcile()
	require.NoError(t, err)
	deployment := &appsv1.Deployment{}
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "price"}, deployment))
	project(&deployment.Spec.Template, "db")
	b.write(deployment)
	s := &scope{fn: b.function(), settings: b.settings.load().Settings}
	require.NoError(t, b.gather(t.Context(), s))
	require.Equal(t, []string{"db"}, s.missingBindings)
	require.NoError(t, b.client.Create(t.Context(), secret("db", nil)))
	s = &scope{fn: b.function(), settings: b.settings.load().Settings}
	require.NoError(t, b.gather(t.Context(), s))
	require.Empty(t, s.missingBindings)
}

func TestTheCacheKeepsBindingsOfPods(t *testing.T) {
	t.Parallel()
	deployment := &appsv1.Deployment{}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "function", Env: []corev1.EnvVar{{Name: "FUNC_HANDLER_SOURCE", Value: "code"}}}}
	project(&deployment.Spec.Template, "db")
	_, err := withoutPodSpec(deployment)
	require.NoError(t, err)
	require.Len(t, deployment.Spec.Template.Spec.Volumes, 1)
	require.Len(t, deployment.Spec.Template.Spec.Containers[0].Env, 1)
	require.Equal(t, "PASSWORD", deployment.Spec.Template.Spec.Containers[0].Env[0].Name)
}

func TestRestartDoesNotWriteToABoundDeployment(t *testing.T) {
	w := newFixture(t)
	fn := w.create(scaled(0, 5))
	t.Cleanup(func() { forgetFunctions(t) })
	c := children(t, fn)["Deployment"]
	_, err := kube.NewApplier(w.Client).Apply(t.Context(), c.desired, nil, c.exclusive...)
	require.NoError(t, err)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.desired.GetNamespace(), Name: c.desired.GetName()}}
	w.writeAs(bindingRuntime, deployment, func(template *corev1.PodTemplateSpec) { project(template, "db") })
	whole := *deployment.Spec.Template.DeepCopy()
	whole.Spec = resources.Projected(&whole)
	c.exclusive = []kube.Part{kube.Exclusive{"spec", "template", "spec"}.Tolerating(resources.Tolerated(&whole))}
	writes, err := c.restart(t, w, nil)
	require.NoError(t, err)
	require.Zero(t, writes)
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	require.True(t, isBound(&deployment.Spec.Template), "%+v", deployment.Spec.Template)
}
