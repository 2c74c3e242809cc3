package resources

import (
	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
)

// Names of the parts, which are Kyma's.
const (
	DeploymentName     = "serverless-ctrl-mngr"
	AccountName        = "serverless-controller-manager"
	ServiceName        = "serverless-controller-manager"
	ConfigName         = "serverless-config"
	ConfigKey          = "function-config.yaml"
	LogConfigName      = "serverless-log-config"
	LogConfigKey       = "log-config.yaml"
	LeaseName          = "serverless-controller-leader-election-helper"
	CAName             = "serverless-ca"
	caKey              = "ca.crt"
	containerName      = "manager"
	metricsPort        = "metrics"
	metricsPortNumber  = 9090
	metricsServicePort = 8080
	networkPolicyName  = DeploymentName
	leaderBindingName  = AccountName
	configHashLength   = 16
	terminationSeconds = 30
	userID             = 65532
)

// Labels and annotations.
const (
	// ManagedBy is the value of LabelManagedBy on all parts.
	ManagedBy      = "rouse-operator"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelOwner has the UID of the Serverless that a part belongs to.
	LabelOwner = "rouse.run/serverless-uid"

	labelModule         = "kyma-project.io/module"
	annotationLogFormat = "serverless.kyma-project.io/log-format"
	module              = "serverless"
)

// selectorLabels find the pods. They cannot be changed once a Deployment has them.
func selectorLabels() map[string]string {
	return map[string]string{"app": module, "app.kubernetes.io/name": module, "app.kubernetes.io/instance": module}
}

func podLabels() map[string]string {
	labels := selectorLabels()
	labels[labelModule] = module
	labels["app.kubernetes.io/part-of"] = module
	labels["networking.serverless.kyma-project.io/to-apiserver"] = "allowed"
	labels["networking.serverless.kyma-project.io/from-serverless"] = "allowed"
	return labels
}

func objectLabels(owner *operatorv1alpha1.Serverless) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":     module,
		"app.kubernetes.io/instance": module,
		"app.kubernetes.io/part-of":  module,
		LabelManagedBy:               ManagedBy,
		labelModule:                  module,
		LabelOwner:                   string(owner.UID),
	}
}
