package door

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/controller/apirules"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/kube"
)

// state is what the status is computed from.
type state struct {
	invalid error  // what the user has to correct
	over    string // why the Door exceeds the share of its namespace
	taken   string // the older Door that has one of its paths
	unkept  string // why bridges do not get its keys
	host    apirules.DoorHost
	decided bool // the host is known
	// asksCertificates is true for a Door with client certificates.
	asksCertificates bool
	report           door.Report
}

// setStatus computes the status.
func setStatus(d *v1alpha1.Door, found *state, now time.Time) {
	status := &d.Status
	status.ObservedGeneration = d.Generation
	status.URL = urlOf(d, found)
	setReport(status, &found.report)
	ready := readyOf(found)
	ready.Type, ready.ObservedGeneration = v1alpha1.ConditionReady, d.Generation
	ready.Message = kube.Truncate(ready.Message, kube.MaxConditionMessage)
	kube.SetCondition(&status.Conditions, ready, now)
}

// urlOf is where requests arrive: of an application the address before its paths.
func urlOf(d *v1alpha1.Door, found *state) string {
	if found.host.Host == "" || found.taken != "" || found.over != "" {
		return ""
	}
	url := "https://" + found.host.Host
	if d.Spec.Application != nil {
		return url
	}
	return url + door.Paths(d)[0]
}

func setReport(status *v1alpha1.DoorStatus, report *door.Report) {
	if !report.Accepted.IsZero() {
		status.LastAccepted = timeOf(report.Accepted)
	}
	if !report.Refused.IsZero() {
		status.LastRefused = &v1alpha1.DoorRefusal{Time: *timeOf(report.Refused), Reason: report.Reason}
	}
	if !report.KeyUsed.IsZero() {
		status.LastKey = &v1alpha1.DoorKeyUse{Name: report.Key, Time: *timeOf(report.KeyUsed)}
	}
	if !report.Expires.IsZero() {
		status.CertificateExpires = timeOf(report.Expires)
	}
}

// timeOf has the precision that the API server keeps.
func timeOf(t time.Time) *metav1.Time {
	stored := metav1.NewTime(t.Truncate(time.Second))
	return &stored
}

func no(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

func readyOf(found *state) metav1.Condition {
	switch {
	case errors.Is(found.invalid, door.ErrNoSecret):
		return no(v1alpha1.ReasonSecretMissing, found.invalid.Error())
	case found.invalid != nil:
		return no(v1alpha1.ReasonInvalid, found.invalid.Error())
	case found.over != "":
		return no(v1alpha1.ReasonShareExceeded, found.over)
	case found.unkept != "":
		return no(v1alpha1.ReasonShareExceeded, found.unkept)
	default:
		return served(found)
	}
}

// served says what has become of the host of a Door that is valid.
func served(found *state) metav1.Condition {
	switch {
	case found.taken != "":
		return no(v1alpha1.ReasonNotExposed, "Door "+found.taken+" has the same host and path and is older: choose another path, or delete one of them")
	case !found.decided:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonLoading, Message: "it is not decided yet whether the host is free"}
	case found.host.Problem != "":
		return no(v1alpha1.ReasonNotExposed, found.host.Problem)
	case found.host.Routed && found.asksCertificates:
		return no(v1alpha1.ReasonNotExposed, "spec.gateway is a Gateway of Gateway API, which ends TLS, so that nobody has a client certificate: name a gateway of Rouse's own")
	case found.host.Pending != "":
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonLoading, Message: found.host.Pending}
	case found.host.Warning != "":
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOpen, Message: "requests become events, but: " + found.host.Warning}
	default:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOpen, Message: "requests become events; status.lastRefused says why the last one did not"}
	}
}
