package resources

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// MaxInstallation is the maximum size of the description of an installation.
const MaxInstallation = 256 << 10

// AllNamespaces in Installation.Namespaces stands for every namespace.
const AllNamespaces = "*"

// Installation is the chart's description of the installation for the operator: everything that the Function controller
// needs and a Serverless does not contain.
type Installation struct {
	// Namespaces are those in which a Serverless may be.
	Namespaces []string `json:"namespaces"`
	// Binding is the name of the ClusterRoleBinding to create.
	Binding string `json:"binding"`
	// Roles exist already. The operator binds them and creates none.
	Roles Roles `json:"roles"`
	// Defaults apply to what a Serverless omits.
	Defaults Defaults `json:"defaults"`
	// FunctionConfig and LogConfig are the installation's settings files, which a Serverless overrides.
	FunctionConfig map[string]any `json:"functionConfig,omitempty"`
	LogConfig      map[string]any `json:"logConfig,omitempty"`
	// Controller configures the Function controller's process.
	Controller Controller `json:"controller"`
	// NetworkPolicy holds the rules for its pods; nil: none.
	NetworkPolicy *NetworkPolicy `json:"networkPolicy,omitempty"`
}

// Roles names ClusterRoles.
type Roles struct {
	// Functions grants the Function controller's rights in the cluster.
	Functions string `json:"functions"`
	// Leader grants its rights in its own namespace, for the leader election.
	Leader string `json:"leader"`
}

// Defaults are the defaults of the installation.
type Defaults struct {
	PublisherAddress       string `json:"publisherAddress"`
	TraceCollectorEndpoint string `json:"traceCollectorEndpoint,omitempty"`
	Profile                string `json:"profile,omitempty"`
	LogLevel               string `json:"logLevel,omitempty"`
	LogFormat              string `json:"logFormat,omitempty"`
}

// Controller configures the Function controller's process and its pods.
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

// NetworkPolicy holds the rules for the Function controller's pods.
type NetworkPolicy struct {
	Ingress []networkingv1.NetworkPolicyIngressRule `json:"ingress"`
	Egress  []networkingv1.NetworkPolicyEgressRule  `json:"egress"`
}

// Allows reports whether a Serverless may be in the namespace.
func (i *Installation) Allows(namespace string) bool {
	return slices.Contains(i.Namespaces, AllNamespaces) || slices.Contains(i.Namespaces, namespace)
}

// ParseInstallation decodes the chart's description.
func ParseInstallation(text []byte) (*Installation, error) {
	if len(text) > MaxInstallation {
		return nil, fmt.Errorf("the description of the installation has %d bytes: at most %d are allowed", len(text), MaxInstallation)
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
