package v2

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
