package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/applyconfig"
	"github.com/rouse-run/rouse/internal/workload"
)

// ContainerName is the name of the container that runs the handler.
const ContainerName = "function"

// revisionHistory is how many earlier ReplicaSets stay for a return to their
// version.
const revisionHistory = 10

// Workload is what was decided about the pods of a Function beside what its
// spec says.
type Workload struct {
	Code
	// Replicas is nil when an autoscaler decides about their number; the API
	// server gives a new Deployment one.
	Replicas *int32
	// Configuration is a hash of the ConfigMaps and Secrets that the pods use. It
	// is empty when a change of those is to restart nothing.
	Configuration string
	// PullSecret is the Secret with which nodes pull the image; empty when they
	// need none.
	PullSecret string
}

// Deployment runs the Function.
func Deployment(fn *v1alpha2.Function, settings *Settings, wanted Workload) (*appsv1ac.DeploymentApplyConfiguration, error) {
	template, err := podTemplate(fn, settings, wanted)
	if err != nil {
		return nil, fmt.Errorf("build pod template: %w", err)
	}
	own, err := ownHash(fn, settings, wanted)
	if err != nil {
		return nil, err
	}
	spec := appsv1ac.DeploymentSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(SelectorLabels(fn))).
		WithRevisionHistoryLimit(revisionHistory).
		WithTemplate(template)
	if wanted.Replicas != nil {
		spec.WithReplicas(*wanted.Replicas)
	}
	return appsv1ac.Deployment(fn.Name, fn.Namespace).
		WithLabels(objectLabels(fn)).
		WithAnnotations(map[string]string{AnnotationOwn: own}).
		WithOwnerReferences(ownerReference(fn)).
		WithSpec(spec), nil
}

// ownHash is a hash of what the pod template is made of but for those settings of the installation that may change while it runs: where
// it differs from the Deployment's the Function itself has changed.
func ownHash(fn *v1alpha2.Function, settings *Settings, wanted Workload) (string, error) {
	unset := *settings
	unset.PublisherAddress, unset.TraceCollectorEndpoint, unset.DefaultProfile, unset.Profiles = "", "", "", nil
	template, err := podTemplate(fn, &unset, wanted)
	if err != nil {
		return "", fmt.Errorf("build pod template without settings: %w", err)
	}
	return template.Annotations[AnnotationTemplate], nil
}

func podTemplate(fn *v1alpha2.Function, settings *Settings, wanted Workload) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	vols, mounts, err := volumes(fn, settings, wanted.Code)
	if err != nil {
		return nil, err
	}
	container, err := container(fn, settings, wanted.Code)
	if err != nil {
		return nil, err
	}
	container.WithVolumeMounts(mounts...)
	security, err := applyconfig.Of[corev1ac.PodSecurityContextApplyConfiguration](PodSecurityContext(fn))
	if err != nil {
		return nil, err
	}
	annotations, err := podAnnotations(fn, wanted)
	if err != nil {
		return nil, err
	}
	spec := corev1ac.PodSpec().
		WithSecurityContext(security).
		WithVolumes(vols...).
		WithTerminationGracePeriodSeconds(gracePeriod(fn)).
		// The API is no business of a Function's: what it may have is a token for
		// the publisher. Variables for every Service of the namespace slow the start.
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false)
	if wanted.PullSecret != "" {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(wanted.PullSecret))
	}
	if wanted.Prepared.Input != "" {
		if err := prepare(fn, settings, wanted.Code, spec, container); err != nil {
			return nil, err
		}
	}
	template := corev1ac.PodTemplateSpec().
		WithLabels(podLabels(fn)).
		WithAnnotations(annotations).
		WithSpec(spec.WithContainers(container))
	hash, err := templateHash(template)
	if err != nil {
		return nil, err
	}
	return template.WithAnnotations(map[string]string{AnnotationTemplate: hash}), nil
}

// container has no command and no working directory, but for an image of Kyma's
// contract: the image's entry point is the runtime's server, and it is process 1.
func container(fn *v1alpha2.Function, settings *Settings, code Code) (*corev1ac.ContainerApplyConfiguration, error) {
	_, requirements := Requirements(fn, settings)
	resources, err := applyconfig.Of[corev1ac.ResourceRequirementsApplyConfiguration](requirements)
	if err != nil {
		return nil, err
	}
	security, err := applyconfig.Of[corev1ac.SecurityContextApplyConfiguration](ContainerSecurityContext(fn, code.Kyma))
	if err != nil {
		return nil, err
	}
	built := corev1ac.Container().
		WithName(ContainerName).
		WithImage(code.Image).
		WithPorts(corev1ac.ContainerPort().WithContainerPort(Port).WithProtocol(corev1.ProtocolTCP)).
		WithReadinessProbe(readinessProbe()).
		WithLivenessProbe(livenessProbe()).
		WithLifecycle(lifecycle()).
		WithResources(resources).
		WithSecurityContext(security).
		// The runtime writes there why a handler does not load. The log is no
		// replacement: it may hold events, and the text goes into the status.
		WithTerminationMessagePolicy(corev1.TerminationMessageReadFile)
	env := workload.Environment(fn, code.Runtime, code.Source, settings.addresses(fn))
	if code.Kyma {
		env = workload.KymaEnvironment(fn, code.Runtime, code.Inline, settings.addresses(fn))
		known, err := kymaOf(code)
		if err != nil {
			return nil, err
		}
		built.WithCommand(kymaCommand(known)...).WithWorkingDir(known.FunctionDir)
	}
	for _, variable := range env {
		converted, err := applyconfig.Of[corev1ac.EnvVarApplyConfiguration](variable)
		if err != nil {
			return nil, err
		}
		built.WithEnv(converted)
	}
	return built, nil
}

func templateHash(template *corev1ac.PodTemplateSpecApplyConfiguration) (string, error) {
	content, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("hash pod template: %w", err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8]), nil
}
