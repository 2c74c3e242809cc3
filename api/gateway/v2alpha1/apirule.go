package v2alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "gateway.kyma-project.io", Version: "v2alpha1"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &APIRule{}, &APIRuleList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// APIRule exposes Services at a host.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=kyma-api-gateway
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.state"
// +kubebuilder:printcolumn:name="Hosts",type="string",JSONPath=".spec.hosts"
type APIRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec v2.APIRuleSpec `json:"spec,omitempty"`
	// +default={"observedGeneration":-1,"state":"Processing"}
	Status v2.APIRuleStatus `json:"status,omitempty"`
}

// APIRuleList is a list of APIRules.
//
// +kubebuilder:object:root=true
type APIRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []APIRule `json:"items"`
}
