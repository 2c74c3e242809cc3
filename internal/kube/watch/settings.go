package watch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

// APIRuleSettings say what APIRules may name. Gateways and the controller need the same.
type APIRuleSettings struct {
	// Enabled says that APIRules are served at all.
	Enabled bool
	// Domains are those of the gateways that Rouse itself is. They count before Gateways of their names.
	Domains map[types.NamespacedName]string
	// GatewayAPI says that APIRules may name Gateways of Gateway API, whose CRDs have to be there.
	GatewayAPI bool
	// Authorizers are the names that extAuth may use.
	Authorizers map[string]bool
}

// BindFlags lets command-line flags change the settings, but for Authorizers.
func (s *APIRuleSettings) BindFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&s.Enabled, "apirules", s.Enabled, "serve APIRules, whose CustomResourceDefinition has to be there")
	fs.Var(&domains{s}, "gateway-domain",
		"gateway that APIRules may name and that Rouse itself is, with its domain: namespace/name=example.com; repeatable")
	fs.BoolVar(&s.GatewayAPI, "gateway-api", s.GatewayAPI, "let APIRules name Gateways of gateway.networking.k8s.io/v1 too")
}

// Validate reports everything that is wrong.
func (s *APIRuleSettings) Validate() error {
	var problems []error
	for _, gateway := range slices.SortedFunc(maps.Keys(s.Domains), byName) {
		domain := s.Domains[gateway]
		if full, ok := apirule.FullHost(v2.Host(domain), nil); !ok || strings.HasPrefix(full, "*.") {
			problems = append(problems, fmt.Errorf("--gateway-domain %s: %q is not a domain such as example.com", gateway, domain))
		}
	}
	return errors.Join(problems...)
}

func byName(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// domains is Settings.Domains as a flag.
type domains struct{ settings *APIRuleSettings }

// Set takes one gateway and its domain.
func (d *domains) Set(text string) error {
	name, domain, found := strings.Cut(text, "=")
	namespace, name, qualified := strings.Cut(name, "/")
	if !found || !qualified || namespace == "" || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("%q is not namespace/name=domain", text)
	}
	if d.settings.Domains == nil {
		d.settings.Domains = map[types.NamespacedName]string{}
	}
	d.settings.Domains[types.NamespacedName{Namespace: namespace, Name: name}] = domain
	return nil
}

// Type is how the usage text calls the value.
func (d *domains) Type() string { return "gateway" }

// String is all of them.
func (d *domains) String() string {
	if d.settings == nil {
		return ""
	}
	texts := make([]string, 0, len(d.settings.Domains))
	for gateway, domain := range d.settings.Domains {
		texts = append(texts, gateway.String()+"="+domain)
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}
