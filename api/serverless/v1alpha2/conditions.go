package v1alpha2

// Condition types of a Function.
const (
	// ConditionConfigurationReady says whether the spec can be run.
	ConditionConfigurationReady = "ConfigurationReady"
	// ConditionBuildReady says whether the image with the source and its
	// dependencies is built. A Function that needs no image does not have it.
	ConditionBuildReady = "BuildReady"
	// ConditionRunning says whether the workload is up, which it also is when it
	// sleeps at zero.
	ConditionRunning = "Running"
	// ConditionScaling says whether the number of pods follows the events. A
	// Function without scaleConfig does not have it.
	ConditionScaling = "Scaling"
)

// Reasons of ConditionConfigurationReady.
const (
	// ReasonSpecValidated goes with True.
	ReasonSpecValidated = "FunctionSpecValidated"
	// ReasonInvalidSpec goes with False: the user has to correct the spec.
	ReasonInvalidSpec = "InvalidFunctionSpec"
	// ReasonSourceUpdated goes with True: there is a new commit.
	ReasonSourceUpdated = "SourceUpdated"
	// ReasonSourceUpdateFailed goes with False: the repository cannot be read.
	ReasonSourceUpdateFailed = "SourceUpdateFailed"
	// ReasonRolledBack goes with True: what runs is an earlier version, as asked.
	ReasonRolledBack = "RolledBack"
	// ReasonRollbackFailed goes with False: there is no such version.
	ReasonRollbackFailed = "RollbackFailed"
)

// Reasons of ConditionBuildReady.
const (
	// ReasonBuildQueued goes with Unknown: other builds come first.
	ReasonBuildQueued = "BuildQueued"
	// ReasonJobCreated goes with Unknown.
	ReasonJobCreated = "JobCreated"
	// ReasonJobRunning goes with Unknown.
	ReasonJobRunning = "JobRunning"
	// ReasonJobFinished goes with True.
	ReasonJobFinished = "JobFinished"
	// ReasonJobFailed goes with False: the message says why and what to do.
	ReasonJobFailed = "JobFailed"
	// ReasonRegistryInvalid goes with False: the registry's Secret cannot be used.
	ReasonRegistryInvalid = "RegistryInvalid"
	// ReasonRegistryUnavailable goes with Unknown: the registry does not answer.
	ReasonRegistryUnavailable = "RegistryUnavailable"
	// ReasonNoRegistry goes with False: every pod installs for itself.
	ReasonNoRegistry = "NoRegistry"
)

// Reasons of ConditionRunning.
const (
	// ReasonDeploymentCreated goes with Unknown.
	ReasonDeploymentCreated = "DeploymentCreated"
	// ReasonDeploymentUpdated goes with Unknown.
	ReasonDeploymentUpdated = "DeploymentUpdated"
	// ReasonDeploymentWaiting goes with Unknown: pods are being replaced.
	ReasonDeploymentWaiting = "DeploymentWaiting"
	// ReasonMinReplicasNotAvailable goes with Unknown: too few pods are ready.
	ReasonMinReplicasNotAvailable = "MinReplicasNotAvailable"
	// ReasonDeploymentReady goes with True.
	ReasonDeploymentReady = "DeploymentReady"
	// ReasonDeploymentFailed goes with False.
	ReasonDeploymentFailed = "DeploymentFailed"
	// ReasonServiceFailed goes with False.
	ReasonServiceFailed = "ServiceFailed"
	// ReasonNetworkPolicyFailed goes with False: without its NetworkPolicy a Function
	// is not run, or not changed.
	ReasonNetworkPolicyFailed = "NetworkPolicyFailed"
	// ReasonHandlerFailed goes with False: the code does not load.
	ReasonHandlerFailed = "HandlerFailed"
)

// Reasons of ConditionScaling.
const (
	// ReasonScaledObjectReady goes with True: KEDA scales the Function.
	ReasonScaledObjectReady = "ScaledObjectReady"
	// ReasonScaledObjectWaiting goes with Unknown: KEDA has not answered yet.
	ReasonScaledObjectWaiting = "ScaledObjectWaiting"
	// ReasonScaledObjectFailed goes with False: KEDA cannot scale the Function.
	ReasonScaledObjectFailed = "ScaledObjectFailed"
	// ReasonKedaNotInstalled goes with False: an HPA scales the Function by its
	// CPU use and never to zero.
	ReasonKedaNotInstalled = "KedaNotInstalled"
)

// ReasonOwnedByOther goes with False of ConditionRunning and ConditionScaling:
// an object that the Function needs exists and belongs to another owner.
const ReasonOwnedByOther = "OwnedByOther"
