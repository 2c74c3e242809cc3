package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIRule exposes Services at a host.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=kyma-api-gateway
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.state"
// +kubebuilder:printcolumn:name="Hosts",type="string",JSONPath=".spec.hosts"
type APIRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec APIRuleSpec `json:"spec"`
	// +default={"observedGeneration":-1,"state":"Processing"}
	Status APIRuleStatus `json:"status,omitempty"`
}

// APIRuleList is a list of APIRules.
//
// +kubebuilder:object:root=true
type APIRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []APIRule `json:"items"`
}

// APIRuleSpec says what is exposed where, and to whom.
type APIRuleSpec struct {
	// Hosts has the one host at which the Services are exposed: a fully qualified domain name, a wildcard like *.example.com, or a
	// single label, to which the domain of the gateway is added.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1
	Hosts []Host `json:"hosts"`

	// Service is the one of all rules that name none.
	// +optional
	Service *Service `json:"service,omitempty"`

	// Gateway is the namespace and the name of the gateway that has the host, as namespace/name.
	// +kubebuilder:validation:MaxLength=127
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$')`,message="Gateway must be in the namespace/name format"
	// +optional
	Gateway *string `json:"gateway,omitempty"`

	// ExternalGateway is the namespace and the name of an ExternalGateway of Kyma, as namespace/name.
	// +kubebuilder:validation:MaxLength=127
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$')`,message="ExternalGateway must be in the namespace/name format"
	// +optional
	ExternalGateway *string `json:"externalGateway,omitempty"`

	// CORSPolicy says which origins may read the answers. Without it no CORS header leaves the gateway.
	// +optional
	CORSPolicy *CORSPolicy `json:"corsPolicy,omitempty"`

	// Rules say which paths and methods are exposed. The first one that fits a request counts.
	// +kubebuilder:validation:MinItems=1
	Rules []Rule `json:"rules"`

	// Timeout of requests, in seconds, for rules that have none. Without both it is 180.
	// +optional
	Timeout *Timeout `json:"timeout,omitempty"`
}

// Host is a lower-case name in the DNS.
//
// +kubebuilder:validation:MaxLength=255
// +kubebuilder:validation:XValidation:rule=`self.matches('^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?|([*]\\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z0-9]{2,63})$')`,message="Host must be a lowercase RFC 1123 label (must consist of lowercase alphanumeric characters or '-', and must start and end with an lowercase alphanumeric character), a fully qualified domain name, or a wildcard domain name"
type Host string

// Timeout is a number of seconds.
//
// +kubebuilder:validation:Minimum=1
// +kubebuilder:validation:Maximum=3900
type Timeout int32

// DefaultTimeout is that of rules without one, when the spec has none either.
const DefaultTimeout Timeout = 180

// Service is a Kubernetes Service and a port of it.
type Service struct {
	// Name of the Service.
	Name string `json:"name"`

	// Namespace of the Service. Without it a rule's Service is in that of spec.service, and otherwise in the APIRule's own.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Port of the Service.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// External is accepted and ignored.
	// +optional
	External *bool `json:"external,omitempty"`
}

// CORSPolicy is what browsers are told about other origins.
type CORSPolicy struct {
	// AllowOrigins that may read answers. Without any, the policy has no effect.
	// +optional
	AllowOrigins []StringMatch `json:"allowOrigins,omitempty"`

	// AllowMethods is the list of Access-Control-Allow-Methods.
	// +optional
	AllowMethods []string `json:"allowMethods,omitempty"`

	// AllowHeaders is the list of Access-Control-Allow-Headers.
	// +optional
	AllowHeaders []string `json:"allowHeaders,omitempty"`

	// AllowCredentials is Access-Control-Allow-Credentials.
	// +optional
	AllowCredentials *bool `json:"allowCredentials,omitempty"`

	// ExposeHeaders is the list of Access-Control-Expose-Headers.
	// +optional
	ExposeHeaders []string `json:"exposeHeaders,omitempty"`

	// MaxAge is Access-Control-Max-Age, in seconds.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxAge *int64 `json:"maxAge,omitempty"`
}

// StringMatch is one of exact, prefix or regex, with its value. A regular expression has to fit the whole string, and any other key
// counts as prefix.
type StringMatch map[string]string

// Keys of a StringMatch.
const (
	MatchExact  = "exact"
	MatchPrefix = "prefix"
	MatchRegex  = "regex"
)
