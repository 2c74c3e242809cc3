package workloads

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/workload"
)

// Bounds of the replicas of a workload, where its Service sets none.
const (
	defaultMin = 0
	defaultMax = 10
	mostMax    = 10_000
)

// scale is how the events of a Service, and where it asks for that the requests, scale its target.
type scale struct {
	target   resources.ScaleTarget
	tuning   workload.Tuning
	triggers []resources.Trigger
	podPort  string // the targetPort that no container may have, empty where requests reach the pods by themselves
}

// kinds of targets, by what users call them.
var kinds = map[string]string{"deployment": "Deployment", "statefulset": "StatefulSet"}

// read returns what the annotations of a Service ask for. The error names each of them that is wrong, and how to mend it.
func read(service *corev1.Service, scaling resources.Scaling) (scale, error) {
	var asked scale
	var problems [7]error
	asked.target, problems[0] = readTarget(service.Annotations[v1alpha2.AnnotationScaleTarget])
	asked.target.Low, problems[1] = readReplicas(service, v1alpha2.AnnotationMinReplicas, defaultMin, 0)
	asked.target.High, problems[2] = readReplicas(service, v1alpha2.AnnotationMaxReplicas, max(defaultMax, asked.target.Low), 1)
	if problems[1] == nil && problems[2] == nil && asked.target.Low > asked.target.High {
		problems[2] = fmt.Errorf("annotation %s is %d, less than %s, %d: raise it", v1alpha2.AnnotationMaxReplicas, asked.target.High,
			v1alpha2.AnnotationMinReplicas, asked.target.Low)
	}
	asked.tuning, problems[3] = workload.TuningOf(service.Annotations, scaling.Defaults)
	asked.triggers, problems[4] = resources.TriggersOf(service.Annotations, scaling.TriggerTypes)
	problems[5] = checkService(service)
	asked.tuning.HTTPWake = service.Annotations[v1alpha2.AnnotationHTTPWake] == v1alpha2.HTTPWakeEnabled
	if problems[5] == nil {
		asked.podPort, problems[6] = readPort(service, asked.tuning.HTTPWake, scaling.HTTPWake)
	}
	return asked, errors.Join(problems[:]...)
}

// readTarget reads KIND/NAME.
func readTarget(text string) (resources.ScaleTarget, error) {
	kind, name, found := strings.Cut(text, "/")
	known := kinds[strings.ToLower(kind)]
	if !found || known == "" || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return resources.ScaleTarget{}, fmt.Errorf(
			"annotation %s: invalid value %q: must be deployment/NAME or statefulset/NAME, of a workload in the Service's namespace",
			v1alpha2.AnnotationScaleTarget, text)
	}
	return resources.ScaleTarget{Kind: known, Name: name}, nil
}

func readReplicas(service *corev1.Service, key string, standard, least int32) (int32, error) {
	text, given := service.Annotations[key]
	if !given {
		return standard, nil
	}
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil || value < int64(least) || value > mostMax {
		return standard, fmt.Errorf("annotation %s: invalid value %q: must be a whole number from %d to %d", key, text, least, mostMax)
	}
	return int32(value), nil
}

// checkService returns why events of a Service cannot scale anything.
func checkService(service *corev1.Service) error {
	switch function := activation.FunctionOf(service); {
	case function != "":
		return fmt.Errorf("the Service is that of Function %s: set spec.scaleConfig there, and remove annotation %s", function, v1alpha2.AnnotationScaleTarget)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return errors.New("the Service is of type ExternalName, which leads to no pods: name a Service that selects the target's pods")
	case len(service.Spec.Selector) == 0:
		return errors.New("the Service has no spec.selector: set it to labels of the target's pods")
	}
	return nil
}

// readPort returns the targetPort of a Service whose callers always pass the gateways, and why HTTP cannot wake its workload.
func readPort(service *corev1.Service, wakes, gateways bool) (podPort string, problem error) {
	port, one := activation.OnlyPort(service)
	_, behind := activation.PodPort(port)
	switch {
	case !wakes && behind:
		return "", fmt.Errorf("targetPort %s leads callers to the gateways alone: set annotation %s: %s, or the port of the pods as targetPort",
			port.TargetPort.StrVal, v1alpha2.AnnotationHTTPWake, v1alpha2.HTTPWakeEnabled)
	case !wakes:
		return "", nil
	case !gateways:
		return "", fmt.Errorf("annotation %s: %s needs the gateways, which are not installed: install the chart with gateway.enabled",
			v1alpha2.AnnotationHTTPWake, v1alpha2.HTTPWakeEnabled)
	case !one:
		return "", fmt.Errorf("the Service has %d ports, and HTTP wakes by a Service with one, of TCP: move the others to a Service of their own",
			len(service.Spec.Ports))
	case service.Spec.ClusterIP == corev1.ClusterIPNone:
		return "", fmt.Errorf("the Service is headless, so that callers get the addresses of pods alone: remove spec.clusterIP: None, or annotation %s",
			v1alpha2.AnnotationHTTPWake)
	case strings.HasPrefix(port.TargetPort.StrVal, activation.PodPortPrefix) && !behind:
		return "", fmt.Errorf("targetPort %q: invalid value: must be %s and a port of the pods from 1 to 65535, such as %s8080",
			port.TargetPort.StrVal, activation.PodPortPrefix, activation.PodPortPrefix)
	case behind:
		return port.TargetPort.StrVal, nil
	}
	return "", nil
}

// target is the state of the workload that a Service names.
type target struct {
	podLabels map[string]string
	portNames []string // of its containers
	function  string   // the Function that it belongs to
	scalers   []string // other autoscalers of it, by kind and name
}

// check returns why a target, nil where there is none, cannot be scaled by a Service.
func check(service *corev1.Service, asked scale, found *target) error {
	name := asked.target.Kind + " " + asked.target.Name
	switch {
	case found == nil:
		return fmt.Errorf("%s does not exist in namespace %s: create it, or correct annotation %s", name, service.Namespace, v1alpha2.AnnotationScaleTarget)
	case found.function != "":
		return fmt.Errorf("%s is that of Function %s: set spec.scaleConfig there, and remove annotation %s", name, found.function, v1alpha2.AnnotationScaleTarget)
	case !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(found.podLabels)):
		return fmt.Errorf("the Service selects pods with %s, which the pods of %s are not: correct spec.selector or annotation %s",
			labels.FormatLabels(service.Spec.Selector), name, v1alpha2.AnnotationScaleTarget)
	case asked.podPort != "" && slices.Contains(found.portNames, asked.podPort):
		return fmt.Errorf("a container of %s has a port named %s, so that callers reach its pods past the gateways and are not counted: rename it",
			name, asked.podPort)
	case len(found.scalers) > 0:
		return fmt.Errorf("%s is scaled by %s too, and Kubernetes lets none of several autoscalers act: delete it, or remove annotation %s",
			name, strings.Join(found.scalers, ", "), v1alpha2.AnnotationScaleTarget)
	}
	return nil
}
