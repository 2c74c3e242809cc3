package conversion

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

// converter writes one APIRule and notes what it cannot write.
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
	written := v2.Host(strings.ToLower(host)) // names in the DNS are the same in any case
	if !apirule.IsHost(written) {
		c.note(attribute, "%q is no fully qualified domain name and no single label: write a host of letters, digits and hyphens", host)
		return nil
	}
	return []v2.Host{written}
}

var labelPath = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// gateway knows the forms namespace/name, and name, which may be followed by a namespace and the domain of Services.
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

// timeout is a number of seconds, or in older ones a duration such as 30s.
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

// corsPolicy writes out what an APIRule without one had.
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
