package apirules

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/kube/watch"
)

// Options are the settings of APIRules in the controller.
type Options struct {
	watch.APIRuleSettings
	// Entrance is the Service to which HTTPRoutes lead, at entrancePort.
	Entrance types.NamespacedName
	// Gateways is the Service whose endpoints are asked what they have loaded. It has no flag of its own.
	Gateways types.NamespacedName
}

// BindFlags lets command-line flags change the settings.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	o.APIRuleSettings.BindFlags(fs)
	fs.Func("authorizers", "names that extAuth of APIRules may use, separated by commas", func(text string) error {
		o.Authorizers = map[string]bool{}
		for name := range strings.SplitSeq(text, ",") {
			if name != "" {
				o.Authorizers[name] = true
			}
		}
		return nil
	})
	fs.Func("apirules-service", "Service to which HTTPRoutes of APIRules lead, namespace/name, at its port 80", func(text string) error {
		namespace, name, found := strings.Cut(text, "/")
		if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("%q is not namespace/name", text)
		}
		o.Entrance = types.NamespacedName{Namespace: namespace, Name: name}
		return nil
	})
}

// Validate reports everything that is wrong.
func (o *Options) Validate() error {
	problems := []error{o.APIRuleSettings.Validate()}
	if o.Enabled && o.Gateways.Name == "" {
		problems = append(problems, errors.New("--apirules: --gateway-service must say where the gateways are"))
	}
	if o.Enabled && o.GatewayAPI && o.Entrance.Name == "" {
		problems = append(problems, errors.New("--gateway-api: --apirules-service must say where HTTPRoutes lead"))
	}
	return errors.Join(problems...)
}
