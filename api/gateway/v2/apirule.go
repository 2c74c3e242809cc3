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

// Rule exposes a path with some methods, in exactly one of three ways: to everyone (noAuth), with a token (jwt), or as authorizers
// decide (extAuth).
//
// +kubebuilder:validation:XValidation:rule="((has(self.extAuth)?1:0)+(has(self.jwt)?1:0)+((has(self.noAuth)&&self.noAuth==true)?1:0))==1",message="One of the following fields must be set: noAuth, jwt, extAuth"
type Rule struct {
	// Path of requests, without the query: exact, or with operators as whole segments. {*} is one segment that is not empty, {**}
	// any number of them, also none, and the last operator of a path. /* alone is every path.
	// +kubebuilder:validation:Pattern=`^((\/([A-Za-z0-9-._~!$&'()+,;=:@]|%[0-9a-fA-F]{2})*)|(\/\{\*{1,2}\}))+$|^\/\*$`
	Path string `json:"path"`

	// Service in place of spec.service.
	// +optional
	Service *Service `json:"service,omitempty"`

	// Methods of requests.
	// +kubebuilder:validation:MinItems=1
	Methods []Method `json:"methods"`

	// NoAuth lets everyone in when it is true.
	// +optional
	NoAuth *bool `json:"noAuth,omitempty"`

	// JWT lets in callers with a token that it accepts.
	// +optional
	JWT *JWT `json:"jwt,omitempty"`

	// ExtAuth lets in callers whom all authorizers accept.
	// +optional
	ExtAuth *ExtAuth `json:"extAuth,omitempty"`

	// Timeout in place of spec.timeout.
	// +optional
	Timeout *Timeout `json:"timeout,omitempty"`

	// Request changes requests on their way to the Service.
	// +optional
	Request *Request `json:"request,omitempty"`
}

// Method is a method of HTTP.
//
// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;DELETE;CONNECT;OPTIONS;TRACE;PATCH
type Method string

// JWT says which tokens are accepted.
type JWT struct {
	// Authentications are issuers, any one of which may have issued the token.
	// +optional
	Authentications []*JWTAuthentication `json:"authentications,omitempty"`

	// Authorizations are demands on the token, any one of which it has to meet. Without them every valid token is accepted.
	// +optional
	Authorizations []*JWTAuthorization `json:"authorizations,omitempty"`
}

// JWTAuthentication is an issuer, its keys, and where its token is in a request.
type JWTAuthentication struct {
	// Issuer is the claim iss of the token.
	Issuer string `json:"issuer"`

	// JWKSURI is where the keys of the issuer are.
	JWKSURI string `json:"jwksUri"`

	// FromHeaders has the header with the token. Without it and FromParams that is Authorization, or the parameter access_token.
	// +optional
	FromHeaders []JWTHeader `json:"fromHeaders,omitempty"`

	// FromParams has the parameter of the query with the token.
	// +optional
	FromParams []string `json:"fromParams,omitempty"`
}

// JWTHeader is a header with a token.
type JWTHeader struct {
	// Name of the header.
	Name string `json:"name"`

	// Prefix of its value before the token, with the space between them.
	// +optional
	Prefix string `json:"prefix,omitempty"`
}

// JWTAuthorization is what a token has to have.
type JWTAuthorization struct {
	// RequiredScopes are all in one claim: scp, scope or scopes.
	// +optional
	RequiredScopes []string `json:"requiredScopes,omitempty"`

	// Audiences are all in the claim aud.
	// +optional
	Audiences []string `json:"audiences,omitempty"`
}

// ExtAuth asks others who is let in.
type ExtAuth struct {
	// Authorizers are their names. All of them have to accept a request.
	// +kubebuilder:validation:MinItems=1
	Authorizers []string `json:"authorizers"`

	// Restrictions ask for a token as well.
	// +optional
	Restrictions *JWT `json:"restrictions,omitempty"`
}

// Request is what requests are changed to.
type Request struct {
	// Cookies take the place of all cookies that the caller sent.
	// +optional
	Cookies map[string]string `json:"cookies,omitempty"`

	// Headers take the place of those of the same names.
	// +optional
	Headers map[string]string `json:"headers,omitempty"`
}

// APIRuleStatus is what the controller found and did.
type APIRuleStatus struct {
	// LastProcessedTime is when the controller last looked at the APIRule.
	// +optional
	LastProcessedTime *metav1.Time `json:"lastProcessedTime,omitempty"`

	// State of the APIRule.
	// +kubebuilder:validation:Enum=Processing;Deleting;Ready;Error;Warning
	State State `json:"state"`

	// Description explains the state.
	// +optional
	Description string `json:"description,omitempty"`

	// ObservedGeneration is the generation that the rest is about, and -1 before the controller has seen any.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions say the same to tools that know nothing of APIRules: Ready, and Stalled when the user has to act.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// State is what became of an APIRule.
type State string

// The states.
const (
	// StateReady means that the rules hold.
	StateReady State = "Ready"
	// StateWarning means that the user has something to do.
	StateWarning State = "Warning"
	// StateError means that the rules do not hold.
	StateError State = "Error"
	// StateProcessing is that of an APIRule that the controller has not seen yet.
	StateProcessing State = "Processing"
	// StateDeleting is accepted; the controller does not set it.
	StateDeleting State = "Deleting"
)

const (
	// AnnotationOriginalVersion is the version in which an APIRule was written. Kyma's webhook sets it.
	AnnotationOriginalVersion = "gateway.kyma-project.io/original-version"
	// AnnotationV1beta1Spec keeps the spec of an APIRule that was written as v1beta1, as JSON. Kyma's webhook sets it.
	AnnotationV1beta1Spec = "gateway.kyma-project.io/v1beta1-spec"
)
