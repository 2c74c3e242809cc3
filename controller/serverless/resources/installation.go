package resources

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// MaxInstallation is the size of the largest description of an installation that is read.
const MaxInstallation = 256 << 10

// AllNamespaces stands in Installation.Namespaces for every namespace.
const AllNamespaces = "*"

// Installation is what the chart says to the operator: all that the Function controller needs to know and a Serverless does not say.
type Installation struct {
	// Namespaces are those in which a Serverless may be.
	Namespaces []string `json:"namespaces"`
	// Binding is the name of the ClusterRoleBinding that is made.
	Binding string `json:"binding"`
	// Roles exist already. The operator binds them and makes none.
	Roles Roles `json:"roles"`
	// Defaults are for what a Serverless leaves out.
	Defaults Defaults `json:"defaults"`
	// FunctionConfig and LogConfig are the installation's files of settings, in which a Serverless changes what it says.
	FunctionConfig map[string]any `json:"functionConfig,omitempty"`
	LogConfig      map[string]any `json:"logConfig,omitempty"`
	// Controller is how the Function controller runs.
	Controller Controller `json:"controller"`
	// NetworkPolicy has the rules for its pods; nil: none.
	NetworkPolicy *NetworkPolicy `json:"networkPolicy,omitempty"`
}

// Roles are names of ClusterRoles.
type Roles struct {
	// Functions has the Function controller's rights in the cluster.
	Functions string `json:"functions"`
	// Leader has its rights in its own namespace, for the leader election.
	Leader string `json:"leader"`
}

// Defaults are those of the installation.
type Defaults struct {
	PublisherAddress       string `json:"publisherAddress"`
	TraceCollectorEndpoint string `json:"traceCollectorEndpoint,omitempty"`
	Profile                string `json:"profile,omitempty"`
	LogLevel               string `json:"logLevel,omitempty"`
	LogFormat              string `json:"logFormat,omitempty"`
}

// Controller is the Function controller's process and its pods.
type Controller struct {
	Image             string                      `json:"image"`
	ImagePullPolicy   corev1.PullPolicy           `json:"imagePullPolicy,omitempty"`
	ImagePullSecrets  []string                    `json:"imagePullSecrets,omitempty"`
	Replicas          int32                       `json:"replicas"`
	Args              []string                    `json:"args"`
	Env               []corev1.EnvVar             `json:"env,omitempty"`
	Resources         corev1.ResourceRequirements `json:"resources"`
	CABundle          string                      `json:"caBundle,omitempty"`
	PriorityClassName string                      `json:"priorityClassName,omitempty"`
	NodeSelector      map[string]string           `json:"nodeSelector,omitempty"`
	Tolerations       []corev1.Toleration         `json:"tolerations,omitempty"`
	PodAnnotations    map[string]string           `json:"podAnnotations,omitempty"`
}

// NetworkPolicy has the rules for the Function controller's pods.
type NetworkPolicy struct {
	Ingress []networkingv1.NetworkPolicyIngressRule `json:"ingress"`
	Egress  []networkingv1.NetworkPolicyEgressRule  `json:"egress"`
}

// Allows reports whether a Serverless may be in the namespace.
func (i *Installation) Allows(namespace string) bool {
	return slices.Contains(i.Namespaces, AllNamespaces) || slices.Contains(i.Namespaces, namespace)
}

// ParseInstallation reads what the chart has written.
func ParseInstallation(text []byte) (*Installation, error) {
	if len(text) > MaxInstallation {
		return nil, fmt.Errorf("the description of the installation has %d bytes: at most %d are read", len(text), MaxInstallation)
	}
	read := &Installation{}
	if err := yaml.UnmarshalStrict(text, read); err != nil {
		return nil, fmt.Errorf("read the description of the installation: %w", err)
	}
	return read, read.validate()
}

func (i *Installation) validate() error {
	var problems []error
	for name, value := range map[string]string{
		"binding": i.Binding, "roles.functions": i.Roles.Functions, "roles.leader": i.Roles.Leader,
		"defaults.publisherAddress": i.Defaults.PublisherAddress, "controller.image": i.Controller.Image,
	} {
		if value == "" {
			problems = append(problems, fmt.Errorf("the description of the installation has no %s", name))
		}
	}
	if len(i.Namespaces) == 0 {
		problems = append(problems, errors.New("the description of the installation has no namespaces"))
	}
	if i.Controller.Replicas < 1 {
		problems = append(problems, errors.New("the description of the installation has no controller.replicas"))
	}
	return errors.Join(problems...)
}
