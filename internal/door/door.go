package door

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Headers by which a gateway passes on what it alone knows of a request. A gateway takes them out of requests from outside.
const (
	// HeaderDoor names the Door, namespace/name.
	HeaderDoor = "Rouse-Door"
	// HeaderToken is the token of the gateway's ServiceAccount for TokenAudience.
	HeaderToken   = "Rouse-Door-Token"
	TokenAudience = "rouse-doors"
	// HeaderSender is the sender's address, in IPv6 its network.
	HeaderSender = "Rouse-Door-Sender"
	// HeaderCertificates is the chain that the client has presented: the base64 of each, separated by commas.
	HeaderCertificates = "Rouse-Client-Certificate"
)

// ServicePort is the port of the Service that takes the requests to Doors from gateways.
const ServicePort = 80

// Form is what a Door takes.
type Form int

// The forms.
const (
	Webhook Form = iota
	CloudEvents
	Application
)

// Door is a compiled Door. It is immutable.
type Door struct {
	Name   types.NamespacedName
	UID    types.UID
	Form   Form
	Source string
	// Application is the name in the paths of an application.
	Application string
	// RequestsPerSecond that each replica reads.
	RequestsPerSecond int
	// UniqueBodies is true where the id of a delivery is not signed, so that whoever repeats a request could change it.
	UniqueBodies bool

	verify    func(r *Request, now time.Time) (Verified, error)
	defaults  func(r *Request, v *Verified) attributes
	mapping   mapping
	types     []string
	origins   []string
	subjects  []string // of tokens
	challenge func(r *Request) []byte
}

// Request is what arrived at a Door.
type Request struct {
	Header http.Header
	Query  string
	Body   []byte
	// Certificates that the client has presented, its own first. Nobody has verified them.
	Certificates []*x509.Certificate
}

// Verified is what is known of a request whose sender may send.
type Verified struct {
	// ID of the delivery; empty: none.
	ID string
	// Time that is signed; zero: none.
	Time time.Time
	// Key of the Secret that verified it.
	Key string
	// Expires is when the client's certificate ends, and Until when its chain does; zero without one.
	Expires, Until time.Time
}

// Names of the keys in a Door's Secret.
const (
	KeyCurrent  = "current"
	KeyPrevious = "previous"
)

// Keys are the contents of a Door's Secret. A missing key is nil.
type Keys struct{ Current, Previous []byte }

// RefusalError is why a request is not taken, for the owner of the Door.
type RefusalError string

// Error implements error.
func (r RefusalError) Error() string { return string(r) }

// The refusals of requests whose sender is not who may send.
const (
	ErrNoSignature = RefusalError("the request has no signature")
	ErrMalformed   = RefusalError("the signature is malformed")
	ErrSignature   = RefusalError("the signature is not by the Door's keys over this body")
	ErrTime        = RefusalError("the signed time is too far from now")
	ErrKey         = RefusalError("the key is missing or wrong")
	ErrCertificate = RefusalError("the request has no client certificate")
	ErrIssuer      = RefusalError("the client certificate is not valid: issuer, time or use")
	ErrSubject     = RefusalError("the client certificate or token is of a subject that may not send")
	ErrRevoked     = RefusalError("the client certificate is revoked")
)

// ErrNoSecret means that a Door needs a Secret that is missing, or has no key current.
var ErrNoSecret = errors.New("the Secret is missing or has no key " + KeyCurrent)

// SecretName is the Secret that a Door needs, empty without one.
func SecretName(d *v1alpha1.Door) string {
	switch {
	case d.Spec.Webhook != nil:
		return d.Spec.Webhook.SecretName
	case d.Spec.Key != nil:
		return d.Spec.Key.SecretName
	default:
		return ""
	}
}

// New compiles a Door. keys is nil while its Secret is missing. An error names the field and what it may be.
func New(d *v1alpha1.Door, keys *Keys) (*Door, error) {
	compiled := &Door{
		Name: types.NamespacedName{Namespace: d.Namespace, Name: d.Name}, UID: d.UID, Source: sourceOf(d),
		RequestsPerSecond: max(d.Spec.RequestsPerSecond, 1), types: d.Spec.Types,
		challenge: func(*Request) []byte { return nil },
	}
	if err := checkHead(d); err != nil {
		return nil, err
	}
	if err := compiled.who(d, keys); err != nil {
		return nil, err
	}
	switch {
	case d.Spec.Webhook != nil:
		return compiled, compiled.mapping.compile(&d.Spec.Webhook.Event)
	case d.Spec.CloudEvents != nil:
		compiled.Form, compiled.origins = CloudEvents, d.Spec.CloudEvents.Origins
	default:
		compiled.Form, compiled.Application = Application, applicationOf(d)
	}
	return compiled, nil
}

// who compiles how the sender is verified.
func (c *Door) who(d *v1alpha1.Door, keys *Keys) error {
	if SecretName(d) != "" && (keys == nil || len(keys.Current) == 0) {
		return fmt.Errorf("spec: Secret %s: %w", SecretName(d), ErrNoSecret)
	}
	switch spec := &d.Spec; {
	case spec.Webhook != nil:
		return c.signed(spec.Webhook, keys)
	case spec.Key != nil:
		secrets := secretsOf(keys, asText)
		c.verify = func(r *Request, _ time.Time) (Verified, error) { return verifyKey(r, secrets) }
		return nil
	case spec.ClientCertificates != nil:
		clients, err := newClients(spec.ClientCertificates)
		c.verify = clients.verify
		return err
	case spec.JWT != nil:
		c.subjects = spec.JWT.Subjects
		c.verify = c.verifyToken
		return nil
	default:
		return errors.New("spec: set one of webhook, clientCertificates, jwt and key")
	}
}

func sourceOf(d *v1alpha1.Door) string {
	if d.Spec.Source != "" {
		return d.Spec.Source
	}
	if d.Spec.Application != nil {
		return applicationOf(d)
	}
	return d.Name
}

func applicationOf(d *v1alpha1.Door) string { return cmp.Or(d.Spec.Application.Name, d.Name) }

// Paths returns the paths at which requests to a Door arrive.
func Paths(d *v1alpha1.Door) []string {
	if d.Spec.Application == nil {
		return []string{cmp.Or(d.Spec.Path, "/")}
	}
	base := "/" + applicationOf(d)
	return []string{base + "/v1/events", base + "/v2/events", base + "/events", base + "/v1/events/subscribed"}
}

// Verify returns what is known of a request whose sender may send, or a RefusalError.
func (c *Door) Verify(r *Request, now time.Time) (Verified, error) { return c.verify(r, now) }

// Challenge returns the answer to a verified request by which a provider tries the Door, nil for any other.
func (c *Door) Challenge(r *Request) []byte { return c.challenge(r) }

// Consents reports whether the owner allows an origin that asks by the handshake of CloudEvents' webhooks.
func (c *Door) Consents(origin string) bool {
	return slices.ContainsFunc(c.origins, func(each string) bool { return each == "*" || strings.EqualFold(each, origin) })
}

// Takes reports whether events of a type are taken.
func (c *Door) Takes(eventType string) bool {
	if len(c.types) == 0 {
		return true
	}
	return slices.ContainsFunc(c.types, func(each string) bool { return cloudevent.MatchesType(each, eventType) })
}

// mostPath bounds the path of a Door.
const mostPath = 512

func checkHead(d *v1alpha1.Door) error {
	if d.Spec.Application != nil && d.Spec.Source != "" && d.Spec.Source != applicationOf(d) {
		return errors.New("spec.source: the events of an application have its name as their source: remove source")
	}
	for _, path := range Paths(d) {
		if len(path) > mostPath || strings.Contains(path, "//") || strings.Contains(path, "/.") {
			return fmt.Errorf("spec.path: %.64q has an empty segment, or one that begins with a dot", path)
		}
	}
	for i, each := range d.Spec.Types {
		if !cloudevent.IsTypePattern(each) {
			return fmt.Errorf("spec.types[%d]: %.64q may have a * at its end alone", i, each)
		}
	}
	return nil
}
