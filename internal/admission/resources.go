package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// The least that a Function's own resources may be.
const (
	minCPU    = "10m"
	minMemory = "16Mi"
)

// What a build should have at least. Less is taken, because the compatible API
// takes it, and may not be enough.
const (
	minBuildCPU    = "200m"
	minBuildMemory = "200Mi"
)

// resourceOwner is whose resources are checked, and where they stand.
type resourceOwner struct {
	name string
	path *field.Path
}

func functionOwner() resourceOwner {
	return resourceOwner{name: "Function", path: field.NewPath("spec", "resourceConfiguration", "function", "resources")}
}

func buildOwner() resourceOwner {
	return resourceOwner{name: "Build", path: field.NewPath("spec", "resourceConfiguration", "build", "resources")}
}

// checkResources checks what is there: a limit that is not set is none, so
// it can neither be too low nor lower than the request.
func checkResources(fn *v1alpha2.Function) Problems {
	config := fn.Spec.ResourceConfiguration
	if config == nil || config.Function == nil || config.Function.Resources == nil {
		return nil
	}
	own := config.Function.Resources
	var problems Problems
	for _, kind := range []struct {
		name corev1.ResourceName
		low  string
	}{{corev1.ResourceCPU, minCPU}, {corev1.ResourceMemory, minMemory}} {
		problems = append(problems, functionOwner().tooLow(own, kind.name, kind.low)...)
		problems = append(problems, functionOwner().tooHigh(own, kind.name)...)
	}
	return problems
}

// tooLow compares what is set of one kind with its minimum.
func (o resourceOwner) tooLow(own *corev1.ResourceRequirements, kind corev1.ResourceName, least string) Problems {
	var problems Problems
	low := resource.MustParse(least)
	if limit, ok := own.Limits[kind]; ok && limit.Cmp(low) < 0 {
		problems = append(problems, problemAt(o.path.Child("limits").Key(string(kind)), fmt.Sprintf(
			"%s limits %s(%s) should be higher than minimal value (%s)", o.name, kind, limit.String(), low.String())))
	}
	if request, ok := own.Requests[kind]; ok && request.Cmp(low) < 0 {
		problems = append(problems, problemAt(o.path.Child("requests").Key(string(kind)), fmt.Sprintf(
			"%s request %s(%s) should be higher than minimal value (%s)", o.name, kind, request.String(), low.String())))
	}
	return problems
}

// tooHigh compares the request of one kind with the limit.
func (o resourceOwner) tooHigh(own *corev1.ResourceRequirements, kind corev1.ResourceName) Problems {
	limit, limited := own.Limits[kind]
	request, requested := own.Requests[kind]
	if !limited || !requested || limit.Cmp(request) >= 0 {
		return nil
	}
	return Problems{problemAt(o.path.Child("limits").Key(string(kind)), fmt.Sprintf(
		"%s limits %s(%s) should be higher than requests %s(%s)", o.name, kind, limit.String(), kind, request.String()))}
}

// buildResources are the requests and limits that a build is given in the spec.
func buildResources(fn *v1alpha2.Function) *corev1.ResourceRequirements {
	config := fn.Spec.ResourceConfiguration
	if config == nil || config.Build == nil {
		return nil
	}
	return config.Build.Resources
}

// checkBuildResources refuses what no pod can have.
func checkBuildResources(fn *v1alpha2.Function) Problems {
	own := buildResources(fn)
	if own == nil {
		return nil
	}
	return append(buildOwner().tooHigh(own, corev1.ResourceCPU), buildOwner().tooHigh(own, corev1.ResourceMemory)...)
}
