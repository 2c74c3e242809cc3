package clusterhome

import (
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
)

// statesOf decides which versions a rollback may choose: those without a state. The versions come as their Deployment orders them, whose
// first one is that of its template: it serves, or it is being rolled out. rollbackTo is what a user has asked for, which the controller may
// not have read yet.
func statesOf(versions []target.Version, serving, rollbackTo string) []dashboard.Version {
	found := make([]dashboard.Version, 0, len(versions))
	for i, each := range versions {
		version := dashboard.Version{Name: each.Name, Since: each.Since, Pods: int(each.Pods)}
		switch {
		case each.Name == serving:
			version.Runs, version.State = true, dashboard.VersionServing
		case i == 0, each.Name == rollbackTo:
			version.State = dashboard.VersionRollingOut
		}
		found = append(found, version)
	}
	return found
}
