package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "gateway.kyma-project.io", Version: "v2"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &APIRule{}, &APIRuleList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

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

// APIRuleSpec exposes Services at a host, with rules for access.
type APIRuleSpec struct {
	// Hosts contains the single host at which the Services are exposed: a fully qualified domain name, a wildcard like
	// *.example.com, or a single label, to which the domain of the gateway is added.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1
	Hosts []Host `json:"hosts"`

	// Service is the Service of all rules without one.
	// +optional
	Service *Service `json:"service,omitempty"`

	// Gateway is the gateway that serves the host, as namespace/name.
	// +kubebuilder:validation:MaxLength=127
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$')`,message="Gateway must be in the namespace/name format"
	// +optional
	Gateway *string `json:"gateway,omitempty"`

	// ExternalGateway is an ExternalGateway of Kyma, as namespace/name.
	// +kubebuilder:validation:MaxLength=127
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$')`,message="ExternalGateway must be in the namespace/name format"
	// +optional
	ExternalGateway *string `json:"externalGateway,omitempty"`

	// CORSPolicy determines which origins may read the responses. Without it the gateway sends no CORS headers.
	// +optional
	CORSPolicy *CORSPolicy `json:"corsPolicy,omitempty"`

	// Rules determine which paths and methods are exposed. The first rule that matches a request applies.
	// +kubebuilder:validation:MinItems=1
	Rules []Rule `json:"rules"`

	// Timeout is the timeout of requests, in seconds, for rules without one. The default is 180.
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

// DefaultTimeout is the timeout of rules without one, when the spec has none either.
const DefaultTimeout Timeout = 180

// Service is a port of a Kubernetes Service.
type Service struct {
	// Name is the name of the Service.
	Name string `json:"name"`

	// Namespace is the namespace of the Service. Without it a rule's Service is in that of spec.service, and otherwise
	// in the APIRule's own.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Port is the port of the Service.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// External is accepted and ignored.
	// +optional
	External *bool `json:"external,omitempty"`
}

// CORSPolicy is the policy for browsers with pages of other origins.
type CORSPolicy struct {
	// AllowOrigins are the origins that may read responses. Without any, the policy has no effect.
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

// StringMatch is one of exact, prefix or regex, with its value. A regular expression has to match the whole string, and
// any other key counts as prefix.
type StringMatch map[string]string

// Keys of a StringMatch.
const (
	MatchExact  = "exact"
	MatchPrefix = "prefix"
	MatchRegex  = "regex"
)

// Rule exposes a path with some methods, with exactly one kind of access: to everyone (noAuth), with a token (jwt), or
// as decided by authorizers (extAuth).
//
// +kubebuilder:validation:XValidation:rule="((has(self.extAuth)?1:0)+(has(self.jwt)?1:0)+((has(self.noAuth)&&self.noAuth==true)?1:0))==1",message="One of the following fields must be set: noAuth, jwt, extAuth"
type Rule struct {
	// Path is the path of requests, without the query: exact, or with operators as whole segments. {*} matches one
	// segment that is not empty, {**} any number of segments, including none, and must be the last operator of a path.
	// /* alone matches every path.
	// +kubebuilder:validation:Pattern=`^((\/([A-Za-z0-9-._~!$&'()+,;=:@]|%[0-9a-fA-F]{2})*)|(\/\{\*{1,2}\}))+$|^\/\*$`
	Path string `json:"path"`

	// Service overrides spec.service.
	// +optional
	Service *Service `json:"service,omitempty"`

	// Methods are the methods of requests.
	// +kubebuilder:validation:MinItems=1
	Methods []Method `json:"methods"`

	// NoAuth admits every request when it is true.
	// +optional
	NoAuth *bool `json:"noAuth,omitempty"`

	// JWT admits requests with a valid token.
	// +optional
	JWT *JWT `json:"jwt,omitempty"`

	// ExtAuth admits requests that all authorizers accept.
	// +optional
	ExtAuth *ExtAuth `json:"extAuth,omitempty"`

	// Timeout overrides spec.timeout.
	// +optional
	Timeout *Timeout `json:"timeout,omitempty"`

	// Request modifies requests before they are sent to the Service.
	// +optional
	Request *Request `json:"request,omitempty"`
}

// Method is a method of HTTP.
//
// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;DELETE;CONNECT;OPTIONS;TRACE;PATCH
type Method string

// JWT determines which tokens are accepted.
type JWT struct {
	// Authentications are issuers of which one must have issued the token.
	// +optional
	Authentications []*JWTAuthentication `json:"authentications,omitempty"`

	// Authorizations are requirements on the token of which one has to be met. Without them every valid token is
	// accepted.
	// +optional
	Authorizations []*JWTAuthorization `json:"authorizations,omitempty"`
}

// JWTAuthentication is an issuer with its keys and the place of its token in a request.
type JWTAuthentication struct {
	// Issuer is the claim iss of the token.
	Issuer string `json:"issuer"`

	// JWKSURI is the URI of the issuer's keys.
	JWKSURI string `json:"jwksUri"`

	// FromHeaders contains the header with the token. Without it and FromParams the token is in Authorization, or in
	// the parameter access_token.
	// +optional
	FromHeaders []JWTHeader `json:"fromHeaders,omitempty"`

	// FromParams contains the query parameter with the token.
	// +optional
	FromParams []string `json:"fromParams,omitempty"`
}

// JWTHeader is a header with a token.
type JWTHeader struct {
	// Name is the name of the header.
	Name string `json:"name"`

	// Prefix is the part of its value before the token, including the space between them.
	// +optional
	Prefix string `json:"prefix,omitempty"`
}

// JWTAuthorization is a requirement on a token.
type JWTAuthorization struct {
	// RequiredScopes must all be in one claim: scp, scope or scopes.
	// +optional
	RequiredScopes []string `json:"requiredScopes,omitempty"`

	// Audiences must all be in the claim aud.
	// +optional
	Audiences []string `json:"audiences,omitempty"`
}

// ExtAuth delegates access to external authorizers.
type ExtAuth struct {
	// Authorizers are the names of the authorizers. All of them have to accept a request.
	// +kubebuilder:validation:MinItems=1
	Authorizers []string `json:"authorizers"`

	// Restrictions additionally require a token.
	// +optional
	Restrictions *JWT `json:"restrictions,omitempty"`
}

// Request modifies requests.
type Request struct {
	// Cookies replace all cookies of the client.
	// +optional
	Cookies map[string]string `json:"cookies,omitempty"`

	// Headers replace headers of the same names.
	// +optional
	Headers map[string]string `json:"headers,omitempty"`
}

// APIRuleStatus is the state of an APIRule as observed by the controller.
type APIRuleStatus struct {
	// LastProcessedTime is the time at which the status last changed.
	// +optional
	LastProcessedTime *metav1.Time `json:"lastProcessedTime,omitempty"`

	// State is the state of the APIRule.
	// +kubebuilder:validation:Enum=Processing;Deleting;Ready;Error;Warning
	State State `json:"state"`

	// Description explains the state.
	// +optional
	Description string `json:"description,omitempty"`

	// ObservedGeneration is the generation that the status refers to, and -1 before the controller has observed any.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions report the state to tools without support for APIRules: Ready, and Stalled when a user has to act.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// State is the state of an APIRule.
type State string

// The states.
const (
	// StateReady means that the rules are served.
	StateReady State = "Ready"
	// StateWarning means that a user should act.
	StateWarning State = "Warning"
	// StateError means that the rules are not served.
	StateError State = "Error"
	// StateProcessing is the state of an APIRule that the controller has not observed yet.
	StateProcessing State = "Processing"
	// StateDeleting is accepted; the controller does not set it.
	StateDeleting State = "Deleting"
)

const (
	// AnnotationOriginalVersion is the version in which an APIRule was written. Kyma's webhook sets it.
	AnnotationOriginalVersion = "gateway.kyma-project.io/original-version"
	// AnnotationV1beta1Spec contains the spec of an APIRule that was written as v1beta1, as JSON. Kyma's webhook sets
	// it.
	AnnotationV1beta1Spec = "gateway.kyma-project.io/v1beta1-spec"
)
