package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/applyconfig"
	"github.com/rouse-run/rouse/internal/workload"
)

// ContainerName is the name of the container that runs the handler.
const ContainerName = "function"

// revisionHistory is the number of earlier ReplicaSets kept for rollbacks.
const revisionHistory = 10

// Workload holds the decisions about the pods of a Function that its spec does not contain.
type Workload struct {
	Code
	// Replicas is nil when an autoscaler sets the number of pods; the API server gives a new Deployment one.
	Replicas *int32
	// Configuration is a hash of the ConfigMaps and Secrets that the pods use, empty when their changes restart
	// nothing.
	Configuration string
	// PullSecret is the Secret with which nodes pull the image; empty when they need none.
	PullSecret string
}

// Deployment returns the Deployment that runs the Function.
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

// ownHash hashes the pod template without the installation's settings that may change at run time. Where it differs
// from the Deployment's the Function itself has changed.
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
		// A Function gets no access to the API, at most a token for the publisher.
		// Variables for every Service of the namespace would slow the start.
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

// container sets neither command nor working directory, except for an image of Kyma's contract: the image's entry point
// is the runtime's server, and runs as process 1.
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
		// The runtime writes the error of a handler that does not load there. The log
		// does not replace it: it may contain events, and the text goes into the status.
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

// tmpVolume is the volume that replaces a read-only tmpPath.
const (
	tmpVolume = "tmp"
	tmpPath   = "/tmp"
)

// volumes mounts what the user requests and, except for Kyma's contract and a token for the publisher, nothing else:
// the kubelet takes about 0.3 s longer to start a pod with volumes.
func volumes(
	fn *v1alpha2.Function, settings *Settings, code Code,
) ([]*corev1ac.VolumeApplyConfiguration, []*corev1ac.VolumeMountApplyConfiguration, error) {
	var vols []*corev1ac.VolumeApplyConfiguration
	var mounts []*corev1ac.VolumeMountApplyConfiguration
	taken := false // whether the user mounts a Secret at /tmp
	for _, secret := range fn.Spec.SecretMounts {
		name := volumeName(secret.SecretName)
		vols = append(vols, corev1ac.Volume().WithName(name).
			WithSecret(corev1ac.SecretVolumeSource().
				WithSecretName(secret.SecretName).
				WithDefaultMode(0o666).
				WithOptional(false)))
		mounts = append(mounts, corev1ac.VolumeMount().
			WithName(name).WithMountPath(secret.MountPath).WithReadOnly(true))
		taken = taken || secret.MountPath == tmpPath
	}
	readOnly := ptr.Deref(ContainerSecurityContext(fn, code.Kyma).ReadOnlyRootFilesystem, false)
	if !taken && (readOnly || code.Kyma) {
		vols, mounts = withEmptyDir(vols, mounts, tmpVolume, tmpPath)
	}
	if settings.showsToken(fn) {
		vols, mounts = withToken(settings.PublisherAudience, vols, mounts)
	}
	if code.Kyma {
		return kymaVolumes(code, vols, mounts)
	}
	return vols, mounts, nil
}

func withEmptyDir(
	vols []*corev1ac.VolumeApplyConfiguration, mounts []*corev1ac.VolumeMountApplyConfiguration, name, path string,
) ([]*corev1ac.VolumeApplyConfiguration, []*corev1ac.VolumeMountApplyConfiguration) {
	return append(vols, corev1ac.Volume().WithName(name).WithEmptyDir(corev1ac.EmptyDirVolumeSource())),
		append(mounts, corev1ac.VolumeMount().WithName(name).WithMountPath(path))
}

// The token with which a Function publishes. The kubelet renews it after four fifths of its lifetime.
const (
	tokenVolume  = "rouse-publisher-token"
	tokenDir     = "/var/run/secrets/rouse" //nolint:gosec // a directory
	tokenFile    = "token"
	tokenSeconds = 3600
)

// showsToken reports whether the pods of a Function get a token: the publisher requires one, and no Secret of the
// Function is mounted in its place. A Function that publishes to an address of its own gets none, because the server
// there could use it.
func (s *Settings) showsToken(fn *v1alpha2.Function) bool {
	elsewhere := func(variable corev1.EnvVar) bool {
		return variable.Name == workload.EnvPublisher && variable.Value != s.PublisherAddress
	}
	inItsPlace := func(secret v1alpha2.SecretMount) bool {
		return strings.HasPrefix(path.Clean(secret.MountPath)+"/", tokenDir+"/")
	}
	return s.PublisherAudience != "" && !slices.ContainsFunc(fn.Spec.Env, elsewhere) && !slices.ContainsFunc(fn.Spec.SecretMounts, inItsPlace)
}

// withToken adds a token of the pod's ServiceAccount for one audience. Builds, and containers that prepare a pod, do
// not see it.
func withToken(
	audience string, vols []*corev1ac.VolumeApplyConfiguration, mounts []*corev1ac.VolumeMountApplyConfiguration,
) ([]*corev1ac.VolumeApplyConfiguration, []*corev1ac.VolumeMountApplyConfiguration) {
	token := corev1ac.ServiceAccountTokenProjection().WithAudience(audience).WithExpirationSeconds(tokenSeconds).WithPath(tokenFile)
	return append(vols, corev1ac.Volume().WithName(tokenVolume).WithProjected(corev1ac.ProjectedVolumeSource().
			WithSources(corev1ac.VolumeProjection().WithServiceAccountToken(token)).
			WithDefaultMode(0o444))), // the kubelet makes it 0640 for the group of the pod, which has one
		append(mounts, corev1ac.VolumeMount().WithName(tokenVolume).WithMountPath(tokenDir).WithReadOnly(true))
}

// functionUser is the user and the group that Functions run as.
const functionUser = 1000

// ContainerSecurityContext is the user's, completed to fit the restricted Pod Security level. The root file system
// stays writable unless the user requests otherwise, because a volume for /tmp would slow every start. With Kyma's
// contract, whose pods have volumes anyway, it is read-only.
func ContainerSecurityContext(fn *v1alpha2.Function, kyma bool) *corev1.SecurityContext {
	security := fn.Spec.ContainerSecurityContext.DeepCopy()
	if security == nil {
		security = &corev1.SecurityContext{}
	}
	if security.Privileged == nil {
		security.Privileged = new(false)
	}
	if security.AllowPrivilegeEscalation == nil && !*security.Privileged {
		security.AllowPrivilegeEscalation = new(false) // with privileged, Kubernetes refuses it
	}
	if security.Capabilities == nil {
		security.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	}
	if security.RunAsNonRoot == nil {
		security.RunAsNonRoot = new(true)
	}
	if security.ReadOnlyRootFilesystem == nil && kyma {
		security.ReadOnlyRootFilesystem = new(true)
	}
	return security
}

// PodSecurityContext is the user's, with defaults filled in.
func PodSecurityContext(fn *v1alpha2.Function) *corev1.PodSecurityContext {
	security := fn.Spec.PodSecurityContext.DeepCopy()
	if security == nil {
		security = &corev1.PodSecurityContext{}
	}
	if security.RunAsUser == nil {
		security.RunAsUser = ptr.To[int64](functionUser)
	}
	if security.RunAsGroup == nil {
		security.RunAsGroup = ptr.To[int64](functionUser)
	}
	if security.FSGroup == nil {
		security.FSGroup = ptr.To[int64](functionUser)
	}
	if security.SupplementalGroups == nil {
		security.SupplementalGroups = []int64{functionUser}
	}
	if security.SeccompProfile == nil {
		security.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	return security
}

const (
	// Port is the port on which the runtimes listen.
	Port = 8080
	// HealthPath answers 200 once the handler is loaded.
	HealthPath = "/healthz"
)

// readinessProbe finds a new pod ready within a second. There is no startup probe: the kubelet tries one only once a
// second, counted from before the container runs, and would check readiness only after it has passed, whereas readiness
// is checked as soon as the container runs.
func readinessProbe() *corev1ac.ProbeApplyConfiguration {
	return probe().
		WithPeriodSeconds(1).
		WithTimeoutSeconds(2).
		WithSuccessThreshold(1).
		WithFailureThreshold(3)
}

// livenessProbe gives a handler 150 seconds to load, and restarts one that hangs later within 15 seconds.
func livenessProbe() *corev1ac.ProbeApplyConfiguration {
	return probe().
		WithInitialDelaySeconds(135).
		WithPeriodSeconds(5).
		WithTimeoutSeconds(4).
		WithSuccessThreshold(1).
		WithFailureThreshold(3)
}

func probe() *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().
		WithPath(HealthPath).WithPort(intstr.FromInt32(Port)))
}

const (
	// envTimeout is the variable with the timeout of a handler call in seconds.
	envTimeout = "FUNC_TIMEOUT"
	// leaveSeconds is how long a terminating pod continues to serve. Until every node has removed it from the Service,
	// requests still arrive, and fail if its port is closed.
	leaveSeconds = 3
	// finishSeconds is how long requests in progress may take after that, and maxFinishSeconds the same for a Function
	// with a longer FUNC_TIMEOUT: a pod that hangs must not occupy its node for ever.
	finishSeconds    = 30
	maxFinishSeconds = 600
)

// lifecycle delays the termination of a pod, and never its start.
func lifecycle() *corev1ac.LifecycleApplyConfiguration {
	return corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().
		WithSleep(corev1ac.SleepAction().WithSeconds(leaveSeconds)))
}

// gracePeriod is the time in seconds from the start of the termination to the kill.
func gracePeriod(fn *v1alpha2.Function) int64 {
	finish := float64(finishSeconds)
	for _, variable := range fn.Spec.Env {
		if variable.Name != envTimeout {
			continue
		}
		finish = finishSeconds // the last of a name wins
		if timeout, err := strconv.ParseFloat(variable.Value, 64); err == nil && timeout > finishSeconds {
			finish = min(math.Ceil(timeout), maxFinishSeconds)
		}
	}
	return leaveSeconds + int64(finish)
}
