package clusterhome

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/doctor"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/eventbridge/identity"
)

// addStatus adds what the cluster records of a Function. What the user may not read is named.
func (h *Home) addStatus(ctx context.Context, detail *dashboard.FunctionDetail, fn *serverlessv1alpha2.Function) {
	detail.Conditions = dashboard.ConditionsOf(fn.Status.Conditions)
	detail.RollbackTo = fn.Annotations[serverlessv1alpha2.AnnotationRollbackTo]
	unless := func(err error) bool {
		if err != nil {
			detail.Unknown = append(detail.Unknown, err.Error())
		}
		return err == nil
	}
	if pods, err := h.objects.Pods(ctx, fn.Namespace, fn.Name); unless(err) {
		for _, pod := range pods {
			detail.Pods = append(detail.Pods, dashboard.Pod{
				Name: pod.Name, Ready: pod.Ready, State: pod.State, Problem: pod.Message, Restarts: pod.Restarts, Since: pod.Since,
			})
		}
	}
	if versions, err := h.objects.Versions(ctx, fn.Namespace, fn.Name); unless(err) {
		detail.Versions = statesOf(versions, fn.Status.Version, detail.RollbackTo)
	}
	if happenings, err := h.objects.Happenings(ctx, fn.Namespace, fn.Name); unless(err) {
		for _, each := range happenings {
			detail.Happenings = append(detail.Happenings, dashboard.Happening{
				Last: each.Last, Count: int(each.Count), Warning: each.Type == "Warning", Reason: each.Reason, Message: each.Message,
			})
		}
	}
}

// shows fails unless the home shows a namespace.
func (h *Home) shows(namespace string) error {
	if h.namespace == "" || h.namespace == namespace {
		return nil
	}
	remedy := "start rouse dashboard with -n " + namespace
	if h.served != nil {
		remedy = "choose namespace " + namespace + " below the navigation"
	}
	return dashboard.Error{Status: http.StatusForbidden, Text: "these pages show and change namespace " + h.namespace + " alone: " + remedy}
}

// RollBack implements dashboard.Manager.
func (h *Home) RollBack(ctx context.Context, _ dashboard.User, function types.NamespacedName, version string) (string, error) {
	if err := h.shows(function.Namespace); err != nil {
		return "", err
	}
	if version != "" {
		now, err := h.objects.Details(ctx, function.Namespace, function.Name)
		if err != nil {
			return "", err
		}
		versions, err := h.objects.Versions(ctx, function.Namespace, function.Name)
		if err != nil {
			return "", err
		}
		if version, err = target.ChooseVersion(now, versions, version); err != nil {
			return "", err
		}
	}
	served, err := h.objects.RollBack(ctx, function.Namespace, function.Name, version)
	if err == nil {
		h.note(ctx, dashboard.KindFunction, function, "RolledBack", "version "+served+" chosen")
	}
	return served, err
}

// Pause implements dashboard.Manager.
func (h *Home) Pause(ctx context.Context, _ dashboard.User, subscription types.NamespacedName, pause bool) (bool, error) {
	if err := h.shows(subscription.Namespace); err != nil {
		return false, err
	}
	changed, err := h.objects.Pause(ctx, subscription.Namespace, subscription.Name, pause)
	if changed {
		reason, what := "Resumed", "resumed"
		if pause {
			reason, what = "Paused", "paused"
		}
		h.note(ctx, dashboard.KindSubscription, subscription, reason, what)
	}
	return changed, err
}

// levels maps the levels of rouse doctor to the levels of package dashboard.
var levels = map[doctor.Level]string{
	doctor.OK: dashboard.LevelGood, doctor.Warning: dashboard.LevelWarning, doctor.Failure: dashboard.LevelBad,
}

// Examine implements dashboard.Doctor, by what rouse doctor finds.
func (h *Home) Examine(ctx context.Context, _ dashboard.User) ([]dashboard.Finding, error) {
	kubernetes, is := h.conn.Kubernetes()
	if !is {
		return nil, dashboard.ErrNotFound
	}
	cluster, err := doctor.ReadCluster(ctx, h.conn, kubernetes, func(ctx context.Context) (*target.Client, error) {
		return h.bridge(ctx, identity.ListSubscriptions(h.namespace))
	})
	if err != nil {
		return nil, err
	}
	report := cluster.Examine()
	found := make([]dashboard.Finding, 0, len(report.Findings))
	for _, each := range report.Findings {
		found = append(found, dashboard.Finding{Check: each.Check, Level: levels[each.Level], Message: each.Message, Remedy: each.Remedy})
	}
	return found, nil
}

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
