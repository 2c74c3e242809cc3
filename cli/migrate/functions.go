package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// functionsPart has Kyma's Deployments go once those of Rouse serve: both are behind the same Service, by the same labels.
func functionsPart(s *Survey) Part {
	part := Part{Name: "Functions"}
	for i := range s.Functions {
		fn := &s.Functions[i]
		after := ""
		if !fn.serves() {
			after = "the Deployment of Rouse to serve it" + fn.obstacle()
		}
		for _, old := range fn.Old {
			part.remove(old.Object, after)
		}
		for _, rest := range fn.Rest {
			part.remove(rest, after)
		}
		differFunction(&part, fn)
	}
	if len(s.Functions) > 0 {
		part.differ(Object{}, "dependencies are installed once into an image where the release has a registry; Kyma's pods installed them at each start")
	}
	return part
}

// serves reports whether Rouse's pods can take over from Kyma's.
func (f *Function) serves() bool {
	if f.Ours == nil || !f.Ours.Current {
		return false
	}
	return f.Ours.Available >= f.Ours.Desired && (f.Ours.Desired > 0 || !f.hasOldPods())
}

// obstacle is why it may last, in parentheses.
func (f *Function) obstacle() string {
	switch {
	case f.Problem != "":
		return " (" + f.Problem + ")"
	case f.Ours != nil && f.Ours.Desired == 0:
		return " (it sleeps: set scaleConfig.minReplicas to 1 meanwhile)"
	default:
		return ""
	}
}

func (f *Function) hasOldPods() bool {
	return slices.ContainsFunc(f.Old, func(w Workload) bool { return w.Desired > 0 })
}

func differFunction(part *Part, fn *Function) {
	if len(fn.Old)+len(fn.Rest) == 0 {
		return
	}
	if fn.Scales {
		part.differ(fn.Object, "is scaled between minReplicas and maxReplicas of its scaleConfig, which Kyma ignored")
	}
	if fn.Override {
		part.differ(fn.Object, "has an image of its own, which runs by Kyma's contract: it reports no load, so it is not counted by HTTP")
	}
	if fn.Ours == nil {
		return
	}
	for _, old := range fn.Old {
		if old.Desired > fn.Ours.Desired {
			part.differ(fn.Object, fmt.Sprintf("has %d replicas, and had %d", fn.Ours.Desired, old.Desired))
		}
		for _, name := range slices.Sorted(maps.Keys(merged(old.Resources, fn.Ours.Resources))) {
			if before, now := old.Resources[name], fn.Ours.Resources[name]; before != now {
				part.differ(fn.Object, strings.TrimSpace(fmt.Sprintf("has %s of %s, and had %s", name, orNone(now), orNone(before))))
			}
		}
	}
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return all
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
