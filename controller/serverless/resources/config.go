package resources

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/internal/settings"
)

// The ConfigMaps have Kyma's names and keys, so that what reads or shows them there finds the same.

func configs(
	owner *operatorv1alpha1.Serverless, installation *Installation, values *Settings,
) ([]*corev1ac.ConfigMapApplyConfiguration, error) {
	functions, err := functionConfig(installation.FunctionConfig, values)
	if err != nil {
		return nil, err
	}
	logs, err := logConfig(installation.LogConfig, values)
	if err != nil {
		return nil, err
	}
	return []*corev1ac.ConfigMapApplyConfiguration{
		configMap(owner, ConfigName, ConfigKey, functions), configMap(owner, LogConfigName, LogConfigKey, logs),
	}, nil
}

func configMap(owner *operatorv1alpha1.Serverless, name, key, text string) *corev1ac.ConfigMapApplyConfiguration {
	return corev1ac.ConfigMap(name, owner.Namespace).WithLabels(objectLabels(owner)).WithData(map[string]string{key: text})
}

// functionConfig is the installation's file with what a Serverless says.
func functionConfig(installed map[string]any, values *Settings) (string, error) {
	file := runtime.DeepCopyJSON(installed)
	if file == nil {
		file = map[string]any{}
	}
	for key, value := range map[string]string{
		"functionPublisherProxyAddress": values.EventingEndpoint,
		"functionReadyRequeueDuration":  values.FunctionRequeueDuration,
		"healthzLivenessTimeout":        values.HealthzLivenessTimeout,
	} {
		if value != "" { // what is left out is the installation's, or else the controller's own
			file[key] = value
		}
	}
	file["functionTraceCollectorEndpoint"] = values.TracingEndpoint // empty means none
	err := unstructured.SetNestedField(file, values.DefaultPreset, "resourcesConfiguration", "function", "resources", "defaultPreset")
	if err != nil {
		return "", fmt.Errorf("the installation's function-config.yaml: %w", err)
	}
	return encoded(file)
}

func logConfig(installed map[string]any, values *Settings) (string, error) {
	file := runtime.DeepCopyJSON(installed)
	if file == nil {
		file = map[string]any{}
	}
	file["logLevel"], file["logFormat"] = values.LogLevel, values.LogFormat
	return encoded(file)
}

func encoded(file map[string]any) (string, error) {
	text, err := yaml.Marshal(file)
	if err != nil {
		return "", fmt.Errorf("encode the settings: %w", err)
	}
	return string(text), nil
}

// settingsArgs name the settings, which the Function controller follows while it runs.
func settingsArgs(owner *operatorv1alpha1.Serverless) []string {
	return []string{
		"--config-map=" + owner.Namespace + "/" + ConfigName,
		"--log-config-map=" + owner.Namespace + "/" + LogConfigName,
	}
}

// check asks the Function controller's own reader.
func (s *Settings) check(installation *Installation) []string {
	var problems []string
	for _, file := range []struct {
		made func() (string, error)
		read func(string) error
	}{
		{
			func() (string, error) { return functionConfig(installation.FunctionConfig, s) },
			func(text string) error { _, err := settings.Parse(text); return err },
		},
		{
			func() (string, error) { return logConfig(installation.LogConfig, s) },
			func(text string) error { _, err := settings.ParseLog(text); return err },
		},
	} {
		text, err := file.made()
		if err == nil {
			err = file.read(text)
		}
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}
