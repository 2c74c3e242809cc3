package function

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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

// checkResources looks at what is there: a limit that is not set is none, so
// it can neither be too low nor lower than the request.
func checkResources(fn *v1alpha2.Function) []string {
	config := fn.Spec.ResourceConfiguration
	if config == nil || config.Function == nil || config.Function.Resources == nil {
		return nil
	}
	own := config.Function.Resources
	var problems []string
	for _, kind := range []struct {
		name corev1.ResourceName
		low  string
	}{{corev1.ResourceCPU, minCPU}, {corev1.ResourceMemory, minMemory}} {
		problems = append(problems, tooLow("Function", own, kind.name, kind.low)...)
		problems = append(problems, tooHigh("Function", own, kind.name)...)
	}
	return problems
}

// tooLow compares what is set of one kind with its minimum.
func tooLow(whose string, own *corev1.ResourceRequirements, kind corev1.ResourceName, least string) []string {
	var problems []string
	low := resource.MustParse(least)
	if limit, ok := own.Limits[kind]; ok && limit.Cmp(low) < 0 {
		problems = append(problems, fmt.Sprintf("%s limits %s(%s) should be higher than minimal value (%s)",
			whose, kind, limit.String(), low.String()))
	}
	if request, ok := own.Requests[kind]; ok && request.Cmp(low) < 0 {
		problems = append(problems, fmt.Sprintf("%s request %s(%s) should be higher than minimal value (%s)",
			whose, kind, request.String(), low.String()))
	}
	return problems
}

// tooHigh compares the request of one kind with the limit.
func tooHigh(whose string, own *corev1.ResourceRequirements, kind corev1.ResourceName) []string {
	limit, limited := own.Limits[kind]
	request, requested := own.Requests[kind]
	if !limited || !requested || limit.Cmp(request) >= 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s limits %s(%s) should be higher than requests %s(%s)",
		whose, kind, limit.String(), kind, request.String())}
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
func checkBuildResources(fn *v1alpha2.Function) []string {
	own := buildResources(fn)
	if own == nil {
		return nil
	}
	return append(tooHigh("Build", own, corev1.ResourceCPU), tooHigh("Build", own, corev1.ResourceMemory)...)
}
