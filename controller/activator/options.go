package activator

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
)

// Options are the settings of waking by HTTP.
type Options struct {
	// GatewayService is the Service of the gateways. Without one HTTP wakes no Function.
	GatewayService types.NamespacedName
}

// BindFlags lets command-line flags change the settings.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.Func("gateway-service", "Service of the gateways, namespace/name: HTTP requests wake Functions through them; empty: none does",
		func(text string) (err error) {
			o.GatewayService, err = parseService(text)
			return err
		})
}

// Enabled reports whether there are gateways.
func (o *Options) Enabled() bool { return o.GatewayService.Name != "" }

func parseService(text string) (types.NamespacedName, error) {
	if text == "" {
		return types.NamespacedName{}, nil
	}
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("%q is not namespace/name", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
