package settingswatch

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// namespaceFile has the namespace of the pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Options name the ConfigMaps.
type Options struct {
	// ConfigMap has the settings, LogConfigMap those of the log: a name in the pod's namespace, or namespace/name. Empty: none.
	ConfigMap, LogConfigMap string
}

// BindFlags adds --config-map and --log-config-map.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	const where = ", in the pod's namespace or as namespace/name; what it says changes what flags say while the process runs. Empty: none"
	fs.StringVar(&o.ConfigMap, "config-map", o.ConfigMap, "ConfigMap with the key function-config.yaml"+where)
	fs.StringVar(&o.LogConfigMap, "log-config-map", o.LogConfigMap, "ConfigMap with the key log-config.yaml"+where)
}

// Validate reports everything that is wrong.
func (o *Options) Validate() error {
	return errors.Join(validate("--config-map", o.ConfigMap), validate("--log-config-map", o.LogConfigMap))
}

func validate(flag, text string) error {
	if text == "" {
		return nil
	}
	namespace, name, qualified := strings.Cut(text, "/")
	if !qualified {
		namespace, name = "default", text
	}
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("%s %q: must be a name, or namespace/name", flag, text)
	}
	return nil
}

// nameOf is the ConfigMap that a flag names.
func nameOf(text string) (types.NamespacedName, error) {
	if namespace, name, qualified := strings.Cut(text, "/"); qualified {
		return types.NamespacedName{Namespace: namespace, Name: name}, nil
	}
	own, err := os.ReadFile(namespaceFile)
	if err != nil {
		return types.NamespacedName{}, fmt.Errorf("find the namespace of ConfigMap %s: outside of a pod name it as namespace/%s: %w", text, text, err)
	}
	return types.NamespacedName{Namespace: strings.TrimSpace(string(own)), Name: text}, nil
}
