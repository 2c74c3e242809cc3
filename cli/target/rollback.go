package target

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
)

// ChooseVersion returns the version to roll back to: the named one, or the one before the newest.
func ChooseVersion(now Details, versions []Version, named string) (string, error) {
	names := make([]string, len(versions))
	for i, version := range versions {
		names[i] = version.Name
	}
	earlier := names[min(1, len(names)):] // the newest serves, or is being rolled out, perhaps in vain
	switch {
	case named != "" && slices.Contains(names, named):
		return named, nil
	case len(earlier) == 0:
		return "", exit.Errorf(exit.NotFound, "there is no earlier version")
	case named != "":
		return "", exit.Errorf(exit.NotFound, "there is no version %s; there are %s, the newest first", named, strings.Join(names, ", "))
	case now.RollbackTo != "":
		return "", exit.Errorf(exit.Usage, "a rollback to %s is in force: name a version with --to (%s), or return with --forward",
			now.RollbackTo, strings.Join(names, ", "))
	}
	return earlier[0], nil
}

// RollBack has a Function serve a version, or for "" the newest one again, and waits until it does. It returns the version that runs.
func (o *Objects) RollBack(ctx context.Context, namespace, name, version string) (string, error) {
	var value any // null removes the annotation
	if version != "" {
		value = version
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha2.AnnotationRollbackTo: value}}})
	if err != nil {
		return "", err
	}
	if _, err := o.Merge(ctx, functionsResource(), namespace, name, string(patch)); err != nil {
		return "", err
	}
	for {
		found, err := o.Details(ctx, namespace, name)
		if err != nil {
			return "", err
		}
		if runs, err := found.runs(version); err != nil || runs {
			return found.Version, err
		}
		select {
		case <-ctx.Done():
			return "", exit.Errorf(exit.Failed, "Function %s is not there yet: rouse describe function %[1]s -n %s shows why", name, namespace)
		case <-time.After(podPollInterval):
		}
	}
}

// runs reports whether the version runs, or for "" that of the spec. The error is the reason that it will not.
func (d *Details) runs(version string) (bool, error) {
	configuration := meta.FindStatusCondition(d.Conditions, v1alpha2.ConditionConfigurationReady)
	running := meta.FindStatusCondition(d.Conditions, v1alpha2.ConditionRunning)
	if configuration == nil || running == nil {
		return false, nil
	}
	refused := configuration.Reason == v1alpha2.ReasonRollbackFailed
	if version != "" {
		if refused && strings.Contains(configuration.Message, version) {
			return false, exit.Errorf(exit.NotFound, "%s", configuration.Message)
		}
		return running.Status == metav1.ConditionTrue && d.Version == version, nil
	}
	if refused || configuration.Reason == v1alpha2.ReasonRolledBack { // the controller has not looked yet
		return false, nil
	}
	for _, condition := range d.Conditions {
		if condition.Type == "Stalled" && condition.Status == metav1.ConditionTrue {
			return false, exit.Errorf(exit.Failed, "the newest version does not run: %s", condition.Message)
		}
	}
	return running.Status == metav1.ConditionTrue, nil
}
