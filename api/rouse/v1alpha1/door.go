package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Door turns requests from outside of the cluster into events: each is answered with 2xx once its event is stored.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=rouse
// +kubebuilder:printcolumn:name="URL",type="string",JSONPath=".status.url"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].reason"
// +kubebuilder:printcolumn:name="Last",type="date",JSONPath=".status.lastAccepted"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have at most 63 characters, since it becomes an attribute of each event"
type Door struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DoorSpec `json:"spec"`
	// +optional
	Status DoorStatus `json:"status,omitempty"`
}

// DoorList is a list of Doors.
//
// +kubebuilder:object:root=true
type DoorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Door `json:"items"`
}

// DoorSpec says where requests arrive, who may send them, and which events they become.
//
// +kubebuilder:validation:XValidation:rule="(has(self.webhook) ? 1 : 0) + (has(self.cloudEvents) ? 1 : 0) + (has(self.application) ? 1 : 0) == 1",message="set exactly one of webhook, cloudEvents and application"
// +kubebuilder:validation:XValidation:rule="(has(self.clientCertificates) ? 1 : 0) + (has(self.jwt) ? 1 : 0) + (has(self.key) ? 1 : 0) == (has(self.webhook) ? 0 : 1)",message="set exactly one of clientCertificates, jwt and key, and none of them with webhook, whose signature says who sent it"
// +kubebuilder:validation:XValidation:rule="!has(self.application) || has(self.clientCertificates)",message="application needs clientCertificates"
// +kubebuilder:validation:XValidation:rule="!has(self.application) || !has(self.path)",message="application has paths of its own: remove path"
type DoorSpec struct {
	// Gateway that answers for the host, namespace/name, as in APIRules.
	// +kubebuilder:validation:MaxLength=127
	// +kubebuilder:validation:Pattern=`^[0-9a-z-_]+(\/[0-9a-z-_]+|(\.[0-9a-z-_]+)*)$`
	Gateway string `json:"gateway"`

	// Host of the requests: a full name, or a label before the gateway's domain. The Doors of one namespace may share a host;
	// no other namespace's Door and no APIRule may have it then.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=255
	Host string `json:"host"`

	// Path of the requests, literally. The default is /.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^/[A-Za-z0-9._~!$&'()+,;=:@/-]*$`
	// +optional
	Path string `json:"path,omitempty"`

	// Source of all events. The default is the name of the application, or else of the Door. A request cannot change it.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Source string `json:"source,omitempty"`

	// Webhook takes requests that their provider has signed.
	// +optional
	Webhook *DoorWebhook `json:"webhook,omitempty"`

	// CloudEvents takes CloudEvents over HTTP, in binary and structured mode and in batches.
	// +optional
	CloudEvents *DoorCloudEvents `json:"cloudEvents,omitempty"`

	// Application takes the requests of one of Kyma's applications: POST /NAME/v1/events, /NAME/v2/events and /NAME/events, and
	// GET /NAME/v1/events/subscribed.
	// +optional
	Application *DoorApplication `json:"application,omitempty"`

	// ClientCertificates says which client certificates may send. Only a gateway that is Rouse's own asks for them.
	// +optional
	ClientCertificates *DoorClientCertificates `json:"clientCertificates,omitempty"`

	// JWT says whose tokens may send, as the header Authorization: Bearer TOKEN.
	// +optional
	JWT *DoorJWT `json:"jwt,omitempty"`

	// Key is sent as the header Authorization: Bearer KEY.
	// +optional
	Key *DoorKey `json:"key,omitempty"`

	// Types of events that are taken; one with a * at its end stands for all that begin so. The default is any.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +optional
	Types []string `json:"types,omitempty"`

	// RequestsPerSecond bounds the requests that each replica reads, of which a sender's address has half. Twice as many may
	// come at once.
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	RequestsPerSecond int `json:"requestsPerSecond,omitempty"`
}

// DoorScheme is how a provider signs its requests.
//
// +kubebuilder:validation:Enum=StandardWebhooks;GitHub;GitLab;Stripe;Slack;Shopify;Twilio;HMAC
type DoorScheme string

// The schemes.
const (
	SchemeStandardWebhooks DoorScheme = "StandardWebhooks"
	SchemeGitHub           DoorScheme = "GitHub"
	SchemeGitLab           DoorScheme = "GitLab"
	SchemeStripe           DoorScheme = "Stripe"
	SchemeSlack            DoorScheme = "Slack"
	SchemeShopify          DoorScheme = "Shopify"
	SchemeTwilio           DoorScheme = "Twilio"
	SchemeHMAC             DoorScheme = "HMAC"
)

// DoorWebhook takes requests that their provider has signed.
//
// +kubebuilder:validation:XValidation:rule="(self.scheme == 'HMAC') == has(self.hmac)",message="the scheme HMAC needs hmac, and no other has it"
// +kubebuilder:validation:XValidation:rule="(self.scheme == 'Twilio') == has(self.url)",message="the scheme Twilio needs url, which it signs, and no other has it"
type DoorWebhook struct {
	// Scheme of the signature.
	Scheme DoorScheme `json:"scheme"`

	// SecretName is the Secret in the Door's namespace with the key current, and with the key previous while the provider
	// may still use that.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`

	// Tolerance is how far a signed time may be from now, from 30s to 15m. The default is 5m.
	// +optional
	Tolerance Duration `json:"tolerance,omitempty"`

	// URL at which Twilio calls the Door, with its scheme and query, which it signs.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https?://`
	// +optional
	URL string `json:"url,omitempty"`

	// HMAC describes signatures that no other scheme covers.
	// +optional
	HMAC *DoorHMAC `json:"hmac,omitempty"`

	// Event maps a request to its event.
	// +kubebuilder:default={}
	// +optional
	Event DoorEvent `json:"event,omitempty"`
}

// DoorHMAC is an HMAC in a header.
type DoorHMAC struct {
	// Header of the signature.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Header string `json:"header"`

	// Prefix before the signature in its header, such as sha256=.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// Algorithm is SHA256 (the default) or SHA512.
	// +kubebuilder:default=SHA256
	// +kubebuilder:validation:Enum=SHA256;SHA512
	// +optional
	Algorithm string `json:"algorithm,omitempty"`

	// Encoding of the signature is Hex (the default) or Base64.
	// +kubebuilder:default=Hex
	// +kubebuilder:validation:Enum=Hex;Base64
	// +optional
	Encoding string `json:"encoding,omitempty"`

	// TimestampHeader has the signed time in seconds since 1970. With it {timestamp}.{body} is signed unless payload says
	// otherwise, and without it {body}.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimestampHeader string `json:"timestampHeader,omitempty"`

	// IDHeader has the id of the delivery, which stays the same when it is repeated. The default is a hash of the body.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	IDHeader string `json:"idHeader,omitempty"`

	// Payload is what is signed, with {timestamp}, {id} and {body}, each once at most, and {body} last.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Payload string `json:"payload,omitempty"`
}

// DoorEvent maps a request to its event by expressions in CEL. They know data, the body as JSON; header, the headers by their names
// in lower case; and event, the attributes that the event has by default. What is absent stays as it is by default.
type DoorEvent struct {
	// Type of the event, a string. What no type may have becomes a dash.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Type string `json:"type,omitempty"`

	// Subject of the event, a string.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Subject string `json:"subject,omitempty"`

	// ID of the event, a string that is the same when the provider repeats its request.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ID string `json:"id,omitempty"`

	// Time of the event, a string by RFC 3339.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Time string `json:"time,omitempty"`

	// Data of the event, any value, which is published as JSON. The default is the body byte for byte.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Data string `json:"data,omitempty"`

	// Drop is true for a request that becomes no event, and is answered as if it did.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Drop string `json:"drop,omitempty"`
}

// DoorCloudEvents takes CloudEvents over HTTP.
type DoorCloudEvents struct {
	// Origins that the handshake of CloudEvents' webhooks (OPTIONS) consents to; * stands for any. Without any it is refused.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	Origins []string `json:"origins,omitempty"`
}

// DoorApplication is one of Kyma's applications.
type DoorApplication struct {
	// Name of the application in the paths. The default is the Door's name.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Name string `json:"name,omitempty"`
}

// DoorClientCertificates says which client certificates may send.
type DoorClientCertificates struct {
	// CA are the certificates in PEM of the authorities that issue the clients' certificates.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	CA string `json:"ca"`

	// Subjects are the names of the clients, each the common name of its certificate, or one of its alternative names with
	// the prefix DNS: or URI:.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Subjects []string `json:"subjects"`

	// Revoked are SHA-256 fingerprints, in hexadecimal digits, of certificates that may send no more.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:Pattern=`^([0-9A-Fa-f]{2}:?){32}$`
	// +optional
	Revoked []string `json:"revoked,omitempty"`
}

// DoorJWT says whose tokens may send.
type DoorJWT struct {
	// Issuer of the tokens.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Issuer string `json:"issuer"`

	// JWKSURI is the URI of the issuer's keys.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	JWKSURI string `json:"jwksUri"`

	// Audiences, all of which a token must have.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Audiences []string `json:"audiences"`

	// Subjects of the tokens that may send. The default is any.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	Subjects []string `json:"subjects,omitempty"`
}

// DoorKey is a secret that the sender knows.
type DoorKey struct {
	// SecretName is the Secret in the Door's namespace with the key current, and with the key previous while senders may still
	// use that.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// DoorStatus is what has become of a Door.
type DoorStatus struct {
	// ObservedGeneration is the generation that the status refers to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, and why it is not.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// URL at which requests arrive; of an application the one before its paths.
	// +optional
	URL string `json:"url,omitempty"`

	// LastAccepted is when a request was last taken. It is up to a minute old.
	// +optional
	LastAccepted *metav1.Time `json:"lastAccepted,omitempty"`

	// LastRefused is the last request that was not.
	// +optional
	LastRefused *DoorRefusal `json:"lastRefused,omitempty"`

	// LastKey is the key of the Secret by which a request was last verified: current, or previous, which can go once it is used
	// no more.
	// +optional
	LastKey *DoorKeyUse `json:"lastKey,omitempty"`

	// CertificateExpires is when the certificate of the last request ends.
	// +optional
	CertificateExpires *metav1.Time `json:"certificateExpires,omitempty"`
}

// DoorRefusal is a request that was not taken.
type DoorRefusal struct {
	Time metav1.Time `json:"time"`
	// Reason tells the owner what the sender is not told.
	Reason string `json:"reason"`
}

// DoorKeyUse is the use of a key.
type DoorKeyUse struct {
	Name string      `json:"name"`
	Time metav1.Time `json:"time"`
}

// Reasons of ConditionReady of Doors, besides ReasonInvalid, ReasonShareExceeded and ReasonForbidden.
const (
	// ReasonOpen accompanies True.
	ReasonOpen = "Open"
	// ReasonNotExposed accompanies False: the host is another's, or the gateway is missing.
	ReasonNotExposed = "NotExposed"
	// ReasonSecretMissing accompanies False: the Secret or its key current is missing.
	ReasonSecretMissing = "SecretMissing"
	// ReasonLoading accompanies Unknown: not all gateways have loaded it yet.
	ReasonLoading = "Loading"
)
