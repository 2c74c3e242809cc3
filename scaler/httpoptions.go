package scaler

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
)

// HTTPOptions are about calls over HTTP.
type HTTPOptions struct {
	// GatewayService is that of the gateways, which report what they hold.
	// Without a name there are none.
	GatewayService types.NamespacedName
	// ActivatorGrace is how long a Function has to be idle, and its activators
	// listed, before its pods may go. It has to be longer than the slowest node
	// takes to send callers to another endpoint.
	ActivatorGrace time.Duration
}

func (o *HTTPOptions) bindFlags(fs *pflag.FlagSet) {
	fs.Func("gateway-service", "Service of the gateways, namespace/name, whose endpoints report the requests that they hold; empty: none",
		func(text string) (err error) {
			o.GatewayService, err = parseService(text)
			return err
		})
	fs.DurationVar(&o.ActivatorGrace, "activator-grace", o.ActivatorGrace,
		"how long a Function that HTTP wakes has to be idle and its gateways listed before its pods may go")
}

func parseService(text string) (types.NamespacedName, error) {
	namespace, name, found := strings.Cut(text, "/")
	if text != "" && (!found || namespace == "" || name == "" || strings.Contains(name, "/")) {
		return types.NamespacedName{}, fmt.Errorf("%q is not namespace/name", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
