package v1alpha1

// Finalizer keeps a Serverless until what was installed for it is removed.
const Finalizer = "serverless-operator.kyma-project.io/deletion-hook"

// Condition types of a Serverless.
const (
	// ConditionConfigured says whether its values make sense.
	ConditionConfigured = "Configured"
	// ConditionInstalled says whether the Function controller runs.
	ConditionInstalled = "Installed"
	// ConditionDeploymentFailure is True while the Function controller's pods cannot be made, and absent otherwise.
	ConditionDeploymentFailure = "DeploymentFailure"
	// ConditionDeleted says how far the removal is.
	ConditionDeleted = "Deleted"
)

// Reasons of ConditionConfigured.
const (
	// ReasonConfigured goes with True.
	ReasonConfigured = "Configured"
	// ReasonConfigurationErr goes with False: the message names the field.
	ReasonConfigurationErr = "ConfigurationErr"
	// ReasonServerlessDuplicated goes with False: another one is served.
	ReasonServerlessDuplicated = "ServerlessDuplicated"
)

// Reasons of ConditionInstalled.
const (
	// ReasonInstallation goes with Unknown.
	ReasonInstallation = "Installation"
	// ReasonInstalled goes with True.
	ReasonInstalled = "Installed"
	// ReasonInstallationErr goes with False.
	ReasonInstallationErr = "InstallationErr"
)

// ReasonDeploymentReplicaFailure goes with True of ConditionDeploymentFailure.
const ReasonDeploymentReplicaFailure = "DeploymentReplicaFailure"

// Reasons of ConditionDeleted.
const (
	// ReasonDeletion goes with Unknown.
	ReasonDeletion = "Deletion"
	// ReasonDeletionErr goes with False: something keeps it from being removed.
	ReasonDeletionErr = "DeletionErr"
	// ReasonDeleted goes with True.
	ReasonDeleted = "Deleted"
)

// ReasonConfiguration is that of the Events about values in force.
const ReasonConfiguration = "Configuration"
