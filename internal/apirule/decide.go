package apirule

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

// Decide returns the Exposure of each APIRule, oldest first. APIRules that are being deleted are left out.
func Decide(apiRules []*v2.APIRule, cluster *Objects) []Exposure {
	return new(Decider).Decide(apiRules, cluster)
}

// Decider caches validations between decisions, because validating an APIRule of a thousand rules takes long. It is not
// safe for concurrent use.
type Decider struct {
	validations map[types.NamespacedName]validation
}

// validation is the cached result of validating an APIRule, with its inputs.
type validation struct {
	uid        types.UID
	generation int64
	around     Cluster
	problems   Problems
}

// Decide is like the function Decide, but reuses the validations of earlier calls.
func (d *Decider) Decide(apiRules []*v2.APIRule, cluster *Objects) []Exposure {
	apiRules = slices.DeleteFunc(slices.Clone(apiRules), func(r *v2.APIRule) bool { return !r.DeletionTimestamp.IsZero() })
	slices.SortFunc(apiRules, byAge)
	before := d.validations
	d.validations = make(map[types.NamespacedName]validation, len(apiRules))
	owners := make(map[string]types.NamespacedName, len(apiRules))
	exposures := make([]Exposure, 0, len(apiRules))
	for _, each := range apiRules {
		name := types.NamespacedName{Namespace: each.Namespace, Name: each.Name}
		e, found := decide(each, cluster, owners, before[name])
		d.validations[name] = found
		exposures = append(exposures, e)
	}
	return exposures
}

func byAge(a, b *v2.APIRule) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
	)
}

// decide reserves the host also for an invalid APIRule: a mistaken edit must not give the host away.
func decide(r *v2.APIRule, cluster *Objects, owners map[string]types.NamespacedName, before validation) (Exposure, validation) {
	e := Exposure{
		APIRule: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, UID: r.UID, Generation: r.Generation,
		CORS: r.Spec.CORSPolicy,
	}
	now := validation{uid: r.UID, generation: r.Generation, around: Cluster{
		Authorizers: cluster.Authorizers, Services: map[types.NamespacedName]Service{},
	}}
	e.Gateway, now.around.Gateway = gatewayOf(r, cluster)
	host, valid := "", false
	if len(r.Spec.Hosts) > 0 {
		host, valid = FullHost(r.Spec.Hosts[0], now.around.Gateway)
	}
	if owner, taken := owners[host]; taken {
		now.around.HostOwner = ownerWords(owner)
	} else if valid {
		owners[host] = e.APIRule
	}
	backends, problems := doorBackends(cluster, e.APIRule, now.around.Services), Problems(nil)
	if backends == nil {
		backends, problems = backendsOf(r, cluster, now.around.Services)
	}
	if now.uid == before.uid && now.generation == before.generation && reflect.DeepEqual(now.around, before.around) {
		now.problems = before.problems
	} else {
		now.problems = Validate(r, now.around)
	}
	e.Problems = slices.Concat(now.problems, problems)
	if closes(e.Problems, All) {
		return e, now
	}
	e.Host = host
	e.AsksCertificates = slices.ContainsFunc(cluster.Doors[e.APIRule], func(d *v1alpha1.Door) bool { return d.Spec.ClientCertificates != nil })
	for i := range r.Spec.Rules {
		rule := Rule{Spec: &r.Spec.Rules[i], Closed: closes(e.Problems, RuleAt(i)), Timeout: timeoutOf(r, &r.Spec.Rules[i])}
		if !rule.Closed {
			rule.Backend = backends[i]
		}
		e.Rules = append(e.Rules, rule)
	}
	return e, now
}

func gatewayOf(r *v2.APIRule, cluster *Objects) (types.NamespacedName, *Gateway) {
	if r.Spec.Gateway == nil {
		return types.NamespacedName{}, nil
	}
	namespace, name, _ := strings.Cut(*r.Spec.Gateway, "/")
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if gateway, exists := cluster.Gateways[key]; exists {
		return key, &gateway
	}
	return key, nil
}

func closes(problems Problems, part Closed) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Closes == part })
}

// ownerWords names the owner of a host, of Doors one with their namespace alone.
func ownerWords(owner types.NamespacedName) string {
	if IsDoorRule(owner.Name) {
		return "Door of namespace " + owner.Namespace
	}
	return "APIRule " + owner.String()
}

// doorBackends returns the backends of an APIRule that stands for Doors, nil for any other.
func doorBackends(cluster *Objects, apiRule types.NamespacedName, known map[types.NamespacedName]Service) []Backend {
	doors := cluster.Doors[apiRule]
	if doors == nil {
		return nil
	}
	known[cluster.DoorService.Service] = Service{Selects: true}
	backends := make([]Backend, len(doors))
	for i, each := range doors {
		backends[i] = Backend{Service: cluster.DoorService.Service, Port: cluster.DoorService.Port, Door: each.Namespace + "/" + each.Name}
	}
	return backends
}

// backendsOf returns the backend of each rule, and collects in known the Services that Validate may see.
func backendsOf(r *v2.APIRule, cluster *Objects, known map[types.NamespacedName]Service) ([]Backend, Problems) {
	var problems Problems
	backends := make([]Backend, len(r.Spec.Rules))
	for i := range r.Spec.Rules {
		target, named := TargetOf(r, &r.Spec.Rules[i])
		if !named {
			continue
		}
		service, exists := cluster.Services[target.Service]
		foreign := target.Service.Namespace != r.Namespace
		if !exists && !foreign {
			continue // Validate reports it
		}
		message := obstacle(r.Namespace, target, &service)
		// One message for a foreign Service suffices, and it must not reveal whether the Service exists.
		known[target.Service] = Service{Selects: service.Selects || foreign && message != ""}
		if message == "" {
			backends[i] = Backend{Service: target.Service, Port: target.Port, Address: service.Address, Wakes: service.Wakes}
			if service.Target.Name != "" {
				backends[i].Service = service.Target
			}
			continue
		}
		problems = append(problems, Problem{
			Attribute: fmt.Sprintf(".spec.rules[%d].service", i), Message: message, Closes: RuleAt(i),
		})
	}
	return backends, problems
}

// obstacle returns why APIRules of a namespace cannot expose a Service, or an empty string. A missing Service admits no
// other namespace.
func obstacle(namespace string, target Target, service *ServiceInfo) string {
	switch {
	case target.Service.Namespace != namespace && !service.allows(namespace):
		return fmt.Sprintf("Service %s is not there, or does not allow it: it needs the annotation %s: %s", target.Service, AnnotationFrom, namespace)
	case service.Selects && service.Address == "":
		return fmt.Sprintf("Service %s has no cluster IP: remove clusterIP: None", target.Service)
	case service.Selects && !slices.Contains(service.Ports, target.Port):
		return fmt.Sprintf("Service %s has no TCP port %d", target.Service, target.Port)
	default:
		return ""
	}
}

func timeoutOf(r *v2.APIRule, rule *v2.Rule) time.Duration {
	for _, timeout := range []*v2.Timeout{rule.Timeout, r.Spec.Timeout} {
		if timeout != nil {
			return time.Duration(*timeout) * time.Second
		}
	}
	return time.Duration(v2.DefaultTimeout) * time.Second
}

// Problem is an error in an APIRule or its surroundings.
type Problem struct {
	// Attribute is the path of the field, such as ".spec.rules[0].path".
	Attribute string
	// Message is the text for users.
	Message string
	// Closes is the part of the APIRule that stays closed because of the problem.
	Closes Closed
}

// Closed is a part of an APIRule.
type Closed int

// IsOfOthers reports whether other objects cause the problem, so that it may pass without a change to the APIRule.
func (p Problem) IsOfOthers() bool {
	return p.Closes != All || p.Message == messageGatewayMissing || strings.HasPrefix(p.Message, messageHostTaken)
}

// All closes the whole APIRule because its own spec is invalid.
const All Closed = 0

// RuleAt closes only the rule of that index because an object that it needs is missing.
func RuleAt(index int) Closed { return Closed(index + 1) }

// Problems are all problems of an APIRule, in the order in which they are reported.
type Problems []Problem

const (
	// shown is the number of problems that a status lists.
	shown = 3

	ready  = "Reconciled successfully"
	failed = "Validation errors: "
)

// Description returns the description for a status: the first problems and the number of further ones, or that there
// are no problems.
func (p Problems) Description() string {
	switch {
	case len(p) == 0:
		return ready
	case len(p) <= shown:
		return failed + p.String()
	default:
		return failed + p[:shown].String() + fmt.Sprintf("\n%d more error(s)...", len(p)-shown)
	}
}

// String returns all problems, one per line, for events and logs.
func (p Problems) String() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = fmt.Sprintf("Attribute '%s': %s", problem.Attribute, problem.Message)
	}
	return strings.Join(lines, "\n")
}

func one(attribute, message string) Problems {
	return Problems{{Attribute: attribute, Message: message}}
}

// missing returns a problem of an object that one rule refers to.
func missing(rule int, attribute, message string) Problems {
	return Problems{{Attribute: attribute, Message: message, Closes: RuleAt(rule)}}
}

// ReportPath is the path at which a gateway serves its Report as JSON, on the port of its load.
const ReportPath = "/apirules"

// Report lists the APIRules that a gateway has loaded.
type Report struct {
	// APIRules are all APIRules that the gateway has loaded, by namespace/name.
	APIRules map[string]Loaded `json:"apiRules"`
}

// Loaded is an APIRule as a gateway serves it.
type Loaded struct {
	// Fingerprint is the fingerprint of the Exposure.
	Fingerprint string `json:"fingerprint"`
	// Problems are those that only a gateway can detect, such as failing to fetch an issuer's keys.
	Problems []LoadedProblem `json:"problems,omitempty"`
}

// LoadedProblem is a problem that a gateway detected in a rule.
type LoadedProblem struct {
	// Rule is the index of the rule.
	Rule int `json:"rule"`
	// Attribute is the path of the field, such as ".spec.rules[0].jwt".
	Attribute string `json:"attribute"`
	Message   string `json:"message"`
}
