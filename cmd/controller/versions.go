package main

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/rouse-run/rouse/charts"
	"github.com/rouse-run/rouse/controller/conversion"
)

// setUpVersions sets up what looks after the versions of the resources.
func setUpVersions(manager ctrl.Manager, o *options) error {
	files, err := charts.CRDs()
	if err != nil {
		return err
	}
	if err := conversion.SetupStoredVersions(manager, metrics.Registry, files); err != nil {
		return err
	}
	if !o.conversion.Enabled() {
		return nil
	}
	if err := conversion.Setup(manager, o.conversion, files); err != nil {
		return err
	}
	return conversion.SetupGitRepositories(manager)
}
