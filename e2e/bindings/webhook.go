package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	servicebindingv1 "github.com/servicebinding/runtime/apis/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// serveWebhook projects into the namespace's Deployments before they are stored. It reports on standard output whether
// the API server reaches this process at all.
func (r *runtime) serveWebhook(ctx context.Context, apiServer, namespace string) (stop func(), err error) {
	var asked atomic.Int64
	hook := &admission.Webhook{Handler: admission.HandlerFunc(func(ctx context.Context, request admission.Request) admission.Response {
		asked.Add(1)
		return r.admit(ctx, request)
	})}
	server, err := serverFor(ctx, apiServer, hook)
	if err != nil {
		return nil, err
	}
	config := webhookOf(namespace, server)
	if err := r.Create(ctx, config); err != nil {
		server.Close()
		return nil, fmt.Errorf("register the webhook: %w", err)
	}
	stop = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = r.Delete(ctx, config) // a remaining one is unreachable and therefore ignored
		server.Close()
	}
	// The API server needs a moment to load it.
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline) && asked.Load() == 0; time.Sleep(100 * time.Millisecond) {
		if err := r.Create(ctx, probe(namespace), client.DryRunAll); err != nil {
			stop()
			return nil, fmt.Errorf("try the webhook: %w", err)
		}
	}
	fmt.Println("bindings: webhook reached:", asked.Load() > 0)
	return stop, nil
}

// admit projects all bindings into a workload, as the runtime's webhook does.
func (r *runtime) admit(ctx context.Context, request admission.Request) admission.Response {
	workload := &unstructured.Unstructured{}
	if err := json.Unmarshal(request.Object.Raw, workload); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	list := &servicebindingv1.ServiceBindingList{}
	if err := r.List(ctx, list, client.InNamespace(request.Namespace)); err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	for i := range list.Items {
		binding := &list.Items[i]
		concerned := r.projector.IsProjected(ctx, binding, workload) || binding.Spec.Workload.Name == workload.GetName()
		if !concerned || !binding.DeletionTimestamp.IsZero() {
			continue
		}
		binding.Default()
		if err := r.projector.Project(ctx, binding, workload); err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
	}
	projected, err := json.Marshal(workload)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, projected)
}

func webhookOf(namespace string, server *httptest.Server) *admissionregistrationv1.MutatingWebhookConfiguration {
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "servicebinding-admission-projector-"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    "interceptor.servicebinding.io",
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: certificate},
			FailurePolicy:           ptr.To(admissionregistrationv1.Ignore),
			TimeoutSeconds:          ptr.To[int32](10),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"*"}, Resources: []string{"deployments"}},
			}},
		}},
	}
}

func probe(namespace string) *appsv1.Deployment {
	labels := map[string]string{"app": "probe"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe"}}},
			},
		},
	}
}
