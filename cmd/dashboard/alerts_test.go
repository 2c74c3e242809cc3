package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// alerting is what a process of Rouse reports of two namespaces, and of all.
const alerting = `rouse_eventbridge_quota_exceeded{namespace="%s"} 1
rouse_eventbridge_quota_exceeded{namespace="%s"} 1
rouse_eventbridge_stream_fill_ratio{stream="EVENTS"} 0.5
`

// health returns the alerts that a user is shown, once metrics were read.
func (b *browser) health(t *testing.T) []string {
	t.Helper()
	var names []string
	require.Eventually(t, func() bool {
		status, text := b.ask(t, http.MethodGet, "/api/v1/health", "")
		var found struct {
			Alerts *struct {
				Firing []struct{ Name, Namespace string }
				Silent int
			}
		}
		if status != http.StatusOK || json.Unmarshal([]byte(text), &found) != nil || found.Alerts == nil || found.Alerts.Silent != 1 {
			return false
		}
		names = nil
		for _, each := range found.Alerts.Firing {
			names = append(names, each.Name+" "+each.Namespace)
		}
		return true
	}, timeout, 500*time.Millisecond)
	return names
}

func TestATenantIsShownTheAlertsOfItsNamespaceAndNothingOfTheInstallation(t *testing.T) {
	t.Parallel()
	var text string
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(r.URL.Query()["name[]"], "rouse_eventbridge_quota_exceeded") {
			http.Error(w, "no names are asked for", http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprint(w, text)
	}))
	t.Cleanup(metrics.Close)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for line := strings.Repeat("a_metric 1\n", 10000); ; {
			if _, err := fmt.Fprint(w, line); err != nil {
				return
			}
		}
	}))
	t.Cleanup(endless.Close)

	namespaces := []string{}
	r := newRigWith(t, nil, func(r *rig, rouse string) {
		for range 2 {
			namespaces = append(namespaces, r.Namespace(t))
		}
		text = fmt.Sprintf(alerting, namespaces[0], namespaces[1])
		r.pod(t, rouse, "controller", map[string]int32{"metrics": portOf(t, metrics.URL)})
		r.pod(t, rouse, "gateway", map[string]int32{"metrics": portOf(t, endless.URL)})
	})
	own := r.tenantIn(t, namespaces[0], rules())
	b := r.browser(t)
	b.logIn(t, own)
	require.Equal(t, []string{"RouseQuotaExceeded " + own.namespace}, b.health(t))
	_, snapshot := b.ask(t, http.MethodGet, "/api/v1/snapshot", "")
	require.Contains(t, snapshot, `"streams":[]`)

	operator := r.tenantIn(t, namespaces[1], rules())
	all := metav1.ObjectMeta{Name: "all-of-" + operator.namespace}
	require.NoError(t, r.Client.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: all, Rules: rules()}))
	require.NoError(t, r.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: all, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: all.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: operator.namespace, Name: operator.account.Name}},
	}))
	everything := r.browser(t)
	require.Eventually(t, func() bool {
		everything.logIn(t, operator)
		_, about := everything.ask(t, http.MethodGet, "/api/v1/about", "")
		return !strings.Contains(about, `"namespace"`)
	}, timeout, 500*time.Millisecond, "the user of all namespaces sees all of them")
	require.ElementsMatch(t, []string{"RouseQuotaExceeded " + namespaces[0], "RouseQuotaExceeded " + namespaces[1]}, everything.health(t))
	_, snapshot = everything.ask(t, http.MethodGet, "/api/v1/snapshot", "")
	require.Contains(t, snapshot, `"streams":[{"name":"EVENTS","fill":0.5}]`)
}
