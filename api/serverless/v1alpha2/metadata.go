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
	// LabelAppName holds the name of the Function too. Only pods have it.
	LabelAppName = "app.kubernetes.io/name"

	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "function-controller"
	// ResourceDeployment is the value of LabelResource.
	ResourceDeployment = "deployment"
)

// Annotations that tune how a Function with scaleConfig scales.
const (
	// AnnotationPollingInterval is how often KEDA asks for the backlog, in
	// seconds. Waking up does not wait for it.
	AnnotationPollingInterval = "rouse.run/polling-interval"
	// AnnotationCooldownPeriod is how long a Function stays up after its last
	// event, in seconds.
	AnnotationCooldownPeriod = "rouse.run/cooldown-period"
	// AnnotationLagThreshold is the backlog that one pod is meant for.
	AnnotationLagThreshold = "rouse.run/lag-threshold"
)
