package migrate

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/runtimes/languages"
)

func functionsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "serverless.kyma-project.io", Version: "v1alpha2", Resource: "functions"}
}

const kedaGroup = "keda.sh"

// madeForFunctions are the kinds of objects that Kyma's controllers or Rouse's make for a Function, beside its Deployment and its Service.
func madeForFunctions() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Group: kedaGroup, Version: "v1alpha1", Resource: "scaledobjects"},
		configMaps(),
	}
}

const ofFunctions = v1alpha2.LabelManagedBy + "=" + v1alpha2.ManagedBy

// functions reads the Functions and what runs them.
func (r reading) functions(ctx context.Context, s *Survey) error {
	byUID := map[types.UID]*Function{}
	err := r.objects.Each(ctx, functionsResource(), "", "", maxObjects, func(found *unstructured.Unstructured) error {
		fn, err := into[v1alpha2.Function](found)
		if err == nil {
			byUID[fn.UID] = functionOf(fn, objectOf(functionsResource(), found))
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, resource := range append(madeForFunctions(), deployments()) {
		err := r.objects.Each(ctx, resource, "", ofFunctions, maxObjects, func(found *unstructured.Unstructured) error {
			fn := byUID[functionUID(found)]
			switch {
			case fn == nil:
				return nil
			case resource == deployments():
				return fn.runBy(found)
			}
			fn.madeOf(found, resource)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, fn := range byUID {
		s.Functions = append(s.Functions, *fn)
	}
	slices.SortFunc(s.Functions, func(a, b Function) int { return strings.Compare(a.key(), b.key()) })
	return nil
}

// runBy adds a Deployment: one that Rouse has not applied is Kyma's.
func (f *Function) runBy(found *unstructured.Unstructured) error {
	deployment, err := into[appsv1.Deployment](found)
	if err != nil {
		return err
	}
	workload := workloadOf(deployment, objectOf(deployments(), found))
	switch {
	case !kube.IsApplied(found):
		f.Old = append(f.Old, workload)
	case found.GetName() == f.Name:
		f.Ours = &workload
	}
	return nil
}

// madeOf adds another object that a controller has made. Kyma makes none for KEDA.
func (f *Function) madeOf(found *unstructured.Unstructured, resource schema.GroupVersionResource) {
	switch {
	case kube.IsApplied(found):
		f.Made = append(f.Made, objectOf(resource, found))
	case resource.Group != kedaGroup:
		f.Rest = append(f.Rest, objectOf(resource, found))
	}
}

// functionUID is the UID of the Function that controls an object with Kyma's labels.
func functionUID(object metav1.Object) types.UID {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "Function" || string(owner.UID) != object.GetLabels()[v1alpha2.LabelUUID] {
		return ""
	}
	return owner.UID
}

func functionOf(fn *v1alpha2.Function, object Object) *Function {
	read := &Function{
		Object: object, Replicas: fn.Spec.Replicas, Scales: fn.Spec.ScaleConfig != nil, Override: fn.Spec.RuntimeImageOverride != "",
		OnlyOurs: onlyOursOf(fn.Annotations),
	}
	if git := fn.Spec.Source.GitRepository; git != nil && git.Auth != nil {
		read.GitSecret = git.Auth.SecretName
	}
	for _, condition := range fn.Status.Conditions {
		if condition.Status == metav1.ConditionFalse && read.Problem == "" {
			read.Problem = condition.Message
		}
	}
	if !isOfKyma(fn.Spec.Runtime) {
		read.OnlyOurs = append(read.OnlyOurs, "runtime "+string(fn.Spec.Runtime))
	}
	if config := fn.Spec.ScaleConfig; config != nil && config.MinReplicas != nil && *config.MinReplicas == 0 {
		read.OnlyOurs = append(read.OnlyOurs, "scaleConfig.minReplicas 0")
	}
	return read
}

// isOfKyma reports whether Kyma's CRD takes a runtime: it has none whose handlers have the signature of a web library.
func isOfKyma(name v1alpha2.Runtime) bool {
	language, err := languages.Of(name)
	if err != nil || language.Kyma == nil {
		return false
	}
	for _, runtime := range language.Runtimes {
		if runtime.Name == string(name) {
			return !runtime.Modern
		}
	}
	return false
}

// onlyOursOf names the annotations of Rouse that change what an object does.
func onlyOursOf(annotations map[string]string) []string {
	var found []string
	for name := range annotations {
		if strings.HasPrefix(name, "rouse.run/") && name != v1alpha2.AnnotationDebugUntil {
			found = append(found, "annotation "+name)
		}
	}
	slices.Sort(found)
	return found
}

func workloadOf(deployment *appsv1.Deployment, object Object) Workload {
	status := &deployment.Status
	workload := Workload{
		Object: object, Desired: 1, Available: status.AvailableReplicas, Resources: map[string]string{},
		Current: status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas >= status.Replicas,
	}
	if deployment.Spec.Replicas != nil {
		workload.Desired = *deployment.Spec.Replicas
	}
	if containers := deployment.Spec.Template.Spec.Containers; len(containers) > 0 {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			for kind, list := range map[string]corev1.ResourceList{"request": containers[0].Resources.Requests, "limit": containers[0].Resources.Limits} {
				if quantity, set := list[name]; set {
					workload.Resources[string(name)+" "+kind] = quantity.String()
				}
			}
		}
	}
	return workload
}
