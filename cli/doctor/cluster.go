package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// Known is a fact, or the reason that it could not be read.
type Known[T any] struct {
	Value T
	Err   error
}

// Cluster holds the facts about a cluster.
type Cluster struct {
	Name           string
	Namespace      string // of the user
	RouseNamespace string
	Client         string    // version of this program
	Now            time.Time // of this machine

	Server     Known[Server]
	Resources  []Resource
	Components Known[[]Component]
	KEDA       Known[[]Component]
	Rights     Known[[]Right]

	Certificates Known[[]Certificate]
	Nodes        Known[[]NodeClock]

	RousePods    Known[[]corev1.Pod]
	FunctionPods Known[[]corev1.Pod]
	Functions    Known[[]Function]
	Policies     Known[Policies]
	Work         Known[[]Work]
}

// Server is the API server.
type Server struct {
	Version string
	Time    time.Time // zero when it does not say
}

// Resource is a resource that Rouse works with.
type Resource struct {
	Check    string
	Name     string // resource.group
	Version  string // that this program uses
	Served   Known[[]string]
	Required bool
}

// Component is a Deployment or a StatefulSet.
type Component struct {
	Name           string
	Kind           string
	Version        string
	Desired, Ready int32
}

// Right is a right of the user.
type Right struct {
	Verb, Resource, Namespace string
	For                       string // the command that needs it
	Allowed                   bool
}

const (
	checkKubernetes = "kubernetes"
	checkClock      = "clock"
	checkResources  = "crds"
	checkComponents = "components"
	checkKEDA       = "keda"
	checkRights     = "rights"
)

// leastKubernetes and leastKEDA are the versions of docs/compatibility.md.
const (
	leastKubernetes = "1.30.0"
	leastKEDA       = "2.17.0"
)

const (
	// skewWarning is a difference of clocks that confuses times; skewFailure is one that makes tokens invalid.
	skewWarning = 30 * time.Second
	skewFailure = 5 * time.Minute
)

// Examine decides what the facts mean.
func (c Cluster) Examine() Report {
	var e examination
	c.examineServer(&e)
	c.examineResources(&e)
	c.examineComponents(&e)
	c.examineKEDA(&e)
	c.examineRights(&e)
	c.examineCertificates(&e)
	c.examineNodes(&e)
	c.examinePods(&e)
	c.examineFunctions(&e)
	c.examinePolicies(&e)
	c.examineWork(&e)
	return reportOf(c.Name+", namespace "+c.Namespace, e.findings)
}

// unknown adds a warning for what could not be read.
func (e *examination) unknown(check string, err error) {
	message, remedy, _ := strings.Cut(err.Error(), ": ask for ")
	if remedy != "" {
		remedy = "ask for " + remedy
	}
	e.warn(check, remedy, "not checked: %s", message)
}

func (c Cluster) examineServer(e *examination) {
	if c.Server.Err != nil {
		e.unknown(checkKubernetes, c.Server.Err)
		return
	}
	server := c.Server.Value
	if older(server.Version, leastKubernetes) {
		e.fail(checkKubernetes, "upgrade Kubernetes", "Kubernetes is %s, and Rouse needs %s", server.Version, leastKubernetes)
	} else {
		e.ok(checkKubernetes, "Kubernetes is %s", server.Version)
	}
	if server.Time.IsZero() {
		return
	}
	difference := c.Now.Sub(server.Time).Abs().Round(time.Second)
	const remedy = "synchronize the clock of this machine, as with systemd-timesyncd or chrony"
	switch {
	case difference >= skewFailure:
		e.fail(checkClock, remedy, "this machine's clock and the API server's differ by %s: tokens are refused", difference)
	case difference >= skewWarning:
		e.warn(checkClock, remedy, "this machine's clock and the API server's differ by %s", difference)
	default:
		e.ok(checkClock, "this machine's clock and the API server's agree")
	}
}

// older reports whether a version is before another. A version that cannot be read is not.
func older(found, least string) bool {
	parsed, err := version.ParseGeneric(found)
	return err == nil && parsed.LessThan(version.MustParseGeneric(least))
}

func (c Cluster) examineResources(e *examination) {
	for _, r := range c.Resources {
		served := r.Served.Value
		switch {
		case r.Served.Err != nil:
			e.unknown(r.Check, r.Served.Err)
		case slices.Contains(served, r.Version):
			e.ok(r.Check, "%s is served as %s", r.Name, strings.Join(served, ", "))
		case len(served) > 0:
			e.fail(r.Check, "use the rouse of that release, or upgrade the chart", "%s is served as %s, and this program needs %s",
				r.Name, strings.Join(served, ", "), r.Version)
		case r.Required:
			e.fail(r.Check, "install Rouse, as docs/operations.md says", "%s is not served", r.Name)
		}
	}
}

func (c Cluster) examineComponents(e *examination) {
	if c.Components.Err != nil {
		e.unknown(checkComponents, c.Components.Err)
		return
	}
	if len(c.Components.Value) == 0 {
		e.fail(checkComponents, "name the namespace that Rouse is installed in with --rouse-namespace",
			"there is no part of Rouse in namespace %s", c.RouseNamespace)
		return
	}
	versions := map[string]bool{}
	for _, component := range c.Components.Value {
		versions[component.Version] = true
		remedy := fmt.Sprintf("kubectl describe %s %s -n %s", strings.ToLower(component.Kind), component.Name, c.RouseNamespace)
		switch {
		case component.Ready >= component.Desired && component.Desired > 0:
			e.ok(checkComponents, "%s has %d of %d replicas ready, version %s", component.Name, component.Ready, component.Desired, component.Version)
		case component.Desired == 0:
			e.warn(checkComponents, "", "%s is scaled to 0", component.Name)
		case component.Ready == 0:
			e.fail(checkComponents, remedy, "%s has no replica ready, of %d", component.Name, component.Desired)
		default:
			e.warn(checkComponents, remedy, "%s has %d of %d replicas ready", component.Name, component.Ready, component.Desired)
		}
	}
	if len(versions) > 1 {
		e.warn(checkComponents, "wait for the upgrade to end, or run helm upgrade again", "the parts of Rouse have %d different versions", len(versions))
	}
}

// examineKEDA needs a scaler of KEDA, or the metrics by which Kubernetes' own autoscaler does the same.
func (c Cluster) examineKEDA(e *examination) {
	served := map[string]bool{}
	for _, r := range c.Resources {
		served[r.Name] = len(r.Served.Value) > 0
	}
	switch {
	case !served[scaledObjects] && served[externalMetrics]:
		e.ok(checkKEDA, "KEDA is not installed, and the scaler serves external metrics instead")
		return
	case !served[scaledObjects]:
		e.fail(checkKEDA, "install KEDA, or set scaler.externalMetrics.enabled of the chart to true",
			"KEDA is not installed: Functions neither sleep nor scale")
		return
	case c.KEDA.Err != nil:
		e.unknown(checkKEDA, c.KEDA.Err)
		return
	case len(c.KEDA.Value) == 0:
		e.fail(checkKEDA, "install KEDA again", "KEDA's resources are served, and there is no operator of KEDA in any namespace")
		return
	}
	for _, component := range c.KEDA.Value {
		switch {
		case component.Ready == 0:
			e.fail(checkKEDA, "kubectl describe deployment "+component.Name, "%s has no replica ready: Functions neither wake nor sleep", component.Name)
		case older(component.Version, leastKEDA):
			e.warn(checkKEDA, "upgrade KEDA", "KEDA is %s, and %s is the oldest that is tested", component.Version, leastKEDA)
		default:
			e.ok(checkKEDA, "%s is ready, version %s", component.Name, component.Version)
		}
	}
}

// examineRights warns of rights that are missing: to have few of them may be meant.
func (c Cluster) examineRights(e *examination) {
	if c.Rights.Err != nil {
		e.unknown(checkRights, c.Rights.Err)
		return
	}
	missing := 0
	for _, right := range c.Rights.Value {
		if right.Allowed {
			continue
		}
		missing++
		e.warn(checkRights, fmt.Sprintf("ask for a role with %s of %s in namespace %s", right.Verb, right.Resource, right.Namespace),
			"you may not %s %s in namespace %s, which %s needs", right.Verb, right.Resource, right.Namespace, right.For)
	}
	if missing == 0 {
		e.ok(checkRights, "you have the %d rights that the commands need", len(c.Rights.Value))
	}
}
