package v1alpha2

// Labels of the objects and pods of a Function.
const (
	// LabelFunctionName holds the name of the Function.
	LabelFunctionName = "serverless.kyma-project.io/function-name"
	// LabelManagedBy holds ManagedBy.
	LabelManagedBy = "serverless.kyma-project.io/managed-by"
	// LabelUUID holds the UID of the Function.
	LabelUUID = "serverless.kyma-project.io/uuid"
	// LabelResource holds ResourceDeployment. Only pods and selectors have it.
	LabelResource = "serverless.kyma-project.io/resource"
	// LabelAppName holds the name of the Function, too. Only pods have it.
	LabelAppName = "app.kubernetes.io/name"

	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "function-controller"
	// ResourceDeployment is the value of LabelResource.
	ResourceDeployment = "deployment"
	// ResourceJob is the value of LabelResource on build Jobs and their pods.
	ResourceJob = "job"
)

// Stand-ins: pods without a Function that serve one while its own pod starts.
const (
	// LabelScalesService, on a ScaledObject, is the UID of the Service whose events it counts.
	LabelScalesService = "rouse.run/scales-service"
	// AnnotationStandIns, on a Namespace, lists how many stand-ins of each runtime wait there: nodejs22=2,python312=1.
	AnnotationStandIns = "rouse.run/stand-ins"
	// LabelStandIn, on a pod, is StandInWaits or StandInServes.
	LabelStandIn = "rouse.run/stand-in"
	// LabelStandInRuntime, on a stand-in, is its runtime.
	LabelStandInRuntime = "rouse.run/runtime"
	// StandInWaits is the value of LabelStandIn of a pod without a Function.
	StandInWaits = "waits"
	// StandInServes is the value of LabelStandIn of a pod that serves the Function that its other labels name.
	StandInServes = "serves"
)

// Annotations that users set on a Function.
const (
	// AnnotationRollbackTo serves an earlier version without a build: a previous value of status.version, or
	// RollbackPrevious.
	AnnotationRollbackTo = "rouse.run/rollback-to"
	// RollbackPrevious is the newest version other than the spec's.
	RollbackPrevious = "previous"
	// AnnotationRestartOnChange, when "true", replaces the pods when a ConfigMap
	// or Secret that the Function refers to changes.
	AnnotationRestartOnChange = "rouse.run/restart-on-change"
	// AnnotationCheckGit triggers an immediate check of the Git repository whenever its value changes.
	AnnotationCheckGit = "rouse.run/check-git"
	// AnnotationRebuild triggers an immediate build whenever its value changes.
	AnnotationRebuild = "rouse.run/rebuild"
	// AnnotationDebugUntil, on a Function or a Subscription, enables debug logging about it in all processes until that
	// time, at most one hour ahead: 2026-05-01T12:00:00Z. It is copied to a Function's Service.
	AnnotationDebugUntil = "rouse.run/debug-until"
	// AnnotationRuntimeContract declares the contract of the image of spec.runtimeImageOverride: RuntimeContractRouse
	// or RuntimeContractKyma. Without it an image from a repository of the installation's runtimes follows the first,
	// any other the second.
	AnnotationRuntimeContract = "rouse.run/runtime-contract"
	// AnnotationFiles, in spec.annotations, names a ConfigMap of the Function's namespace that contains the files of its
	// source: one key for each, in which ".." stands for "/". They take precedence over the inline source. It is in the
	// spec, so that another ConfigMap is another generation.
	AnnotationFiles = "rouse.run/files"
	// AnnotationFilesDigest, in spec.annotations, identifies the content of these files, so that another content is another generation of
	// the Function. It is for whoever waits for a generation; the controller reads the files themselves.
	AnnotationFilesDigest = "rouse.run/files-digest"
	// RuntimeContractRouse is the contract of an image that is made from one of Rouse's runtimes and keeps its entry
	// point. It is the base of builds, too.
	RuntimeContractRouse = "rouse"
	// RuntimeContractKyma is the contract of an image whose server is started by the pod's command, which first writes
	// the source and installs the dependencies.
	RuntimeContractKyma = "kyma"
)

// Names and labels of the Secrets that users create, the same as in Kyma.
const (
	// RegistrySecret holds the credentials of a registry: in a namespace for its Functions, in the release's namespace
	// for all.
	RegistrySecret = "serverless-registry-config"
	// LabelRemoteRegistry, with the value RemoteRegistryConfig, marks RegistrySecret.
	LabelRemoteRegistry = "serverless.kyma-project.io/remote-registry"
	// RemoteRegistryConfig is the value of LabelRemoteRegistry.
	RemoteRegistryConfig = "config"
	// PackageRegistrySecret holds .npmrc and pip.conf for a namespace.
	PackageRegistrySecret = "serverless-package-registry-config"
)

// Annotations that tune how a Function with scaleConfig scales.
const (
	// AnnotationPollingInterval is the interval at which KEDA polls the backlog, in seconds. Waking from zero does not
	// depend on it.
	AnnotationPollingInterval = "rouse.run/polling-interval"
	// AnnotationCooldownPeriod is the time after its last event for which a Function stays awake, in seconds.
	AnnotationCooldownPeriod = "rouse.run/cooldown-period"
	// AnnotationLagThreshold is the target backlog of one pod.
	AnnotationLagThreshold = "rouse.run/lag-threshold"
	// AnnotationHTTPWake is HTTPWakeEnabled, the default of Functions, or HTTPWakeDisabled, that of other workloads: HTTP
	// requests then neither wake the Function nor keep it awake.
	AnnotationHTTPWake = "rouse.run/http-wake" //nolint:gosec // "PW" is of two words
	// HTTPWakeEnabled lets HTTP requests wake the Function.
	HTTPWakeEnabled = "enabled"
	// HTTPWakeDisabled lets only events wake the Function.
	HTTPWakeDisabled = "disabled"
	// AnnotationHTTPConcurrency is the target number of concurrent HTTP requests of one pod.
	AnnotationHTTPConcurrency = "rouse.run/http-concurrency"
	// AnnotationTriggers lists further triggers of KEDA's, as YAML of a ScaledObject's spec.triggers.
	AnnotationTriggers = "rouse.run/triggers"
	// AnnotationHTTPWait is the maximum time that an HTTP request waits for a pod, in seconds.
	AnnotationHTTPWait = "rouse.run/http-wait" //nolint:gosec // "PW" is of two words
)

// Annotations that users set on a Service whose events scale a workload that is no Function. Those that tune Functions apply, too.
const (
	// AnnotationScaleTarget names the workload whose pods the Service selects: deployment/NAME or statefulset/NAME.
	AnnotationScaleTarget = "rouse.run/scale-target"
	// AnnotationMinReplicas and AnnotationMaxReplicas bound its replicas, 0 and 10 by default.
	AnnotationMinReplicas = "rouse.run/min-replicas"
	AnnotationMaxReplicas = "rouse.run/max-replicas"
)

// ScaleAnnotations are all annotations that are read of a Service whose events scale a workload.
func ScaleAnnotations() []string {
	return []string{
		AnnotationScaleTarget, AnnotationMinReplicas, AnnotationMaxReplicas, AnnotationLagThreshold, AnnotationPollingInterval, AnnotationCooldownPeriod,
		AnnotationTriggers, AnnotationHTTPWake, AnnotationHTTPConcurrency, AnnotationHTTPWait,
	}
}

// DebugUntil returns only the annotation AnnotationDebugUntil, or nil without it. It drops a value that is too long for
// a time.
func DebugUntil(annotations map[string]string) map[string]string {
	const longest = 64
	until := annotations[AnnotationDebugUntil]
	if until == "" || len(until) > longest {
		return nil
	}
	return map[string]string{AnnotationDebugUntil: until}
}
