package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

// MaxDocument limits the size of a document: no cluster stores a larger one.
const MaxDocument = 3 << 20

const kind = "APIRule"

// ErrNotOldAPIRule is returned for a document that is not an APIRule of an old version.
var ErrNotOldAPIRule = errors.New("no APIRule of version v1alpha1 or v1beta1")

// states maps the status codes of old versions to the states of v2.
var states = map[string]v2.State{"OK": v2.StateReady, "WARNING": v2.StateWarning, "ERROR": v2.StateError, "SKIPPED": v2.StateWarning}

// ConvertAPIRule reads an APIRule of an old version, in YAML or JSON, and returns it as v2, with all problems. It also
// accepts an APIRule that was read from Kyma as a later version, if an annotation holds its old spec.
func ConvertAPIRule(document []byte) (*v2.APIRule, apirule.Problems, error) {
	old, err := decode(document)
	if err != nil {
		return nil, nil, err
	}
	c := converter{namespace: old.Namespace}
	made := &v2.APIRule{
		TypeMeta:   metav1.TypeMeta{APIVersion: v2.GroupVersion.String(), Kind: kind},
		ObjectMeta: metadata(&old.ObjectMeta),
		Spec: v2.APIRuleSpec{
			Hosts:      c.hosts(&old.Spec),
			Gateway:    c.gateway(old.Spec.Gateway),
			Service:    service(old.Spec.Service),
			CORSPolicy: c.corsPolicy(old.Spec.CORSPolicy),
			Timeout:    c.timeout(".spec.timeout", old.Spec.Timeout),
			Rules:      c.rules(old.Spec.Rules),
		},
		Status: v2.APIRuleStatus{
			LastProcessedTime: old.Status.LastProcessedTime,
			State:             states[old.Status.APIRuleStatus.Code],
			Description:       old.Status.APIRuleStatus.Description,
		},
	}
	return made, c.problems, nil
}

func decode(document []byte) (*oldAPIRule, error) {
	if len(document) > MaxDocument {
		return nil, fmt.Errorf("decode an APIRule: %d bytes are more than the %d of the largest", len(document), MaxDocument)
	}
	content, err := yaml.ToJSON(document)
	if err != nil {
		return nil, fmt.Errorf("decode an APIRule: %w", err)
	}
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(content, &head); err != nil {
		return nil, fmt.Errorf("decode an APIRule: %w", err)
	}
	kept, err := keptSpec(&head)
	if err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", head.APIVersion, head.Kind, err)
	}
	old := &oldAPIRule{}
	if kept == "" {
		if err := json.Unmarshal(content, old); err != nil {
			return nil, fmt.Errorf("decode an APIRule: %w", err)
		}
		return old, nil
	}
	old.ObjectMeta = head.ObjectMeta
	if err := json.Unmarshal([]byte(kept), &old.Spec); err != nil {
		return nil, fmt.Errorf("decode the annotation %s: %w", v2.AnnotationV1beta1Spec, err)
	}
	return old, nil
}

// keptSpec returns the old spec in an annotation of a later version. It is empty when the object itself is of an old
// version.
func keptSpec(head *metav1.PartialObjectMetadata) (string, error) {
	group, version, _ := strings.Cut(head.APIVersion, "/")
	old := version == "v1alpha1" || version == "v1beta1"
	kept := head.Annotations[v2.AnnotationV1beta1Spec]
	switch {
	case group != v2.GroupVersion.Group, head.Kind != kind:
		return "", ErrNotOldAPIRule
	case old:
		return "", nil
	case kept == "", head.Annotations[v2.AnnotationOriginalVersion] != "v1beta1":
		return "", ErrNotOldAPIRule
	default:
		return kept, nil
	}
}

// metadata returns the user's part of the metadata.
func metadata(old *metav1.ObjectMeta) metav1.ObjectMeta {
	annotations := maps.Clone(old.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, v2.GroupVersion.Group+"/") || strings.HasPrefix(key, "kubectl.kubernetes.io/")
	})
	if len(annotations) == 0 {
		annotations = nil
	}
	return metav1.ObjectMeta{Name: old.Name, Namespace: old.Namespace, Labels: maps.Clone(old.Labels), Annotations: annotations}
}

// oldAPIRule is an APIRule of an old version, limited to the fields that are read.
type oldAPIRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   oldSpec   `json:"spec"`
	Status oldStatus `json:"status"`
}

type oldSpec struct {
	Host       string          `json:"host"`
	Gateway    string          `json:"gateway"`
	Service    *oldService     `json:"service"`
	Timeout    json.RawMessage `json:"timeout"`
	CORSPolicy *oldCORSPolicy  `json:"corsPolicy"`
	Rules      []oldRule       `json:"rules"`
}

type oldService struct {
	// Host is the host of the APIRule in v1alpha1.
	Host      string `json:"host"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Port      int32  `json:"port"`
	External  *bool  `json:"external"`
}

type oldCORSPolicy struct {
	AllowOrigins     []map[string]string `json:"allowOrigins"`
	AllowMethods     []string            `json:"allowMethods"`
	AllowHeaders     []string            `json:"allowHeaders"`
	AllowCredentials *bool               `json:"allowCredentials"`
	ExposeHeaders    []string            `json:"exposeHeaders"`
	// MaxAge is a duration such as 10m.
	MaxAge string `json:"maxAge"`
}

type oldRule struct {
	Path             string          `json:"path"`
	Service          *oldService     `json:"service"`
	Methods          []string        `json:"methods"`
	AccessStrategies []oldHandler    `json:"accessStrategies"`
	Mutators         []oldHandler    `json:"mutators"`
	Timeout          json.RawMessage `json:"timeout"`
}

// oldHandler is a handler of Ory Oathkeeper or of Kyma.
type oldHandler struct {
	Name   string          `json:"handler"`
	Config json.RawMessage `json:"config"`
}

type oldStatus struct {
	LastProcessedTime *metav1.Time `json:"lastProcessedTime"`
	APIRuleStatus     struct {
		Code        string `json:"code"`
		Description string `json:"desc"`
	} `json:"APIRuleStatus"`
}

// converter converts one APIRule and collects its problems.
type converter struct {
	namespace string
	problems  apirule.Problems
}

func (c *converter) note(attribute, format string, args ...any) {
	c.problems = append(c.problems, apirule.Problem{Attribute: attribute, Message: fmt.Sprintf(format, args...)})
}

func (c *converter) hosts(spec *oldSpec) []v2.Host {
	attribute, host := ".spec.host", spec.Host
	if host == "" && spec.Service != nil && spec.Service.Host != "" {
		attribute, host = ".spec.service.host", spec.Service.Host
	}
	written := v2.Host(strings.ToLower(host)) // names in the DNS are case-insensitive
	if !apirule.IsHost(written) {
		c.note(attribute, "%q is no fully qualified domain name and no single label: write a host of letters, digits and hyphens", host)
		return nil
	}
	return []v2.Host{written}
}

var labelPath = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// gateway accepts the forms namespace/name, and name, which may be followed by a namespace and the domain of Services.
func (c *converter) gateway(old string) *string {
	namespace, name, found := strings.Cut(old, "/")
	if !found {
		short := strings.TrimSuffix(strings.TrimSuffix(old, ".cluster.local"), ".svc")
		if name, namespace, found = strings.Cut(short, "."); !found {
			namespace = c.namespace
		}
	}
	if !labelPath.MatchString(namespace) || !labelPath.MatchString(name) {
		c.note(".spec.gateway", "%q does not name a namespace and a gateway: write namespace/name", old)
		return nil
	}
	return new(namespace + "/" + name)
}

func service(old *oldService) *v2.Service {
	if old == nil {
		return nil
	}
	return &v2.Service{Name: old.Name, Namespace: old.Namespace, Port: old.Port, External: old.External}
}

const (
	minTimeout = time.Second
	maxTimeout = 3900 * time.Second
)

// timeout accepts a number of seconds, or, in older versions, a duration such as 30s.
func (c *converter) timeout(attribute string, old json.RawMessage) *v2.Timeout {
	if len(old) == 0 || string(old) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(old, &text) != nil {
		text = string(old) + "s"
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration < minTimeout || duration > maxTimeout {
		c.note(attribute, "%s is no time from 1 to 3900 seconds", old)
		return nil
	}
	return new(v2.Timeout((duration + time.Second - 1) / time.Second))
}

// corsPolicy returns the explicit form of the old default.
func (c *converter) corsPolicy(old *oldCORSPolicy) *v2.CORSPolicy {
	if old == nil {
		return &v2.CORSPolicy{
			AllowOrigins: []v2.StringMatch{{v2.MatchRegex: ".*"}},
			AllowMethods: []string{"GET", "POST", "PUT", "DELETE", "PATCH"},
			AllowHeaders: []string{"Authorization", "Content-Type", "*"},
		}
	}
	policy := &v2.CORSPolicy{
		AllowMethods:     old.AllowMethods,
		AllowHeaders:     old.AllowHeaders,
		AllowCredentials: old.AllowCredentials,
		ExposeHeaders:    old.ExposeHeaders,
	}
	for _, origin := range old.AllowOrigins {
		policy.AllowOrigins = append(policy.AllowOrigins, v2.StringMatch(origin))
	}
	if old.MaxAge == "" {
		return policy
	}
	age, err := time.ParseDuration(old.MaxAge)
	if err != nil || age < time.Second {
		c.note(".spec.corsPolicy.maxAge", "%q is no time of at least a second", old.MaxAge)
		return policy
	}
	policy.MaxAge = new(int64(age / time.Second))
	return policy
}

// everySuffix lists the ends of regular expressions that stand for any characters.
var everySuffix = []string{"(.*)", ".*"}

// literal matches a path without metacharacters of regular expressions except the dot, which in practice stands for
// itself.
var literal = regexp.MustCompile(`^(/([A-Za-z0-9._~!&',;=:@-]|%[0-9a-fA-F]{2})*)+$`)

// unescape removes the backslashes before metacharacters.
var unescape = strings.NewReplacer(`\.`, `.`, `\-`, `-`, `\/`, `/`)

// pathsOf returns the paths of v2, in their order, that are equivalent to a regular expression, or nil.
func pathsOf(old string) []string {
	if _, err := apirule.ParsePattern(old); err == nil && (old == "/*" || strings.Contains(old, "{")) {
		return []string{old} // it was written with the operators of v2
	}
	stem, every := unescape.Replace(old), false
	for _, suffix := range everySuffix {
		if cut, found := strings.CutSuffix(old, suffix); found {
			stem, every = unescape.Replace(cut), true
			break
		}
	}
	switch {
	case !literal.MatchString(stem):
		return nil
	case !every:
		return []string{stem}
	case stem == "/":
		return []string{"/*"}
	case strings.HasSuffix(stem, "/"):
		return []string{stem + "{**}"}
	default:
		return []string{stem, stem + "/{**}"}
	}
}
