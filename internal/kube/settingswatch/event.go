package settingswatch

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/internal/kube"
)

// Reasons of Events on the ConfigMaps.
const (
	ReasonRefused = "SettingsRefused"
	ReasonInForce = "SettingsInForce"
)

const (
	// maxEventNote is the longest text that an Event may have.
	maxEventNote = 1024
	eventTimeout = 10 * time.Second
)

// announce writes an Event on the ConfigMap. A recorder would make one series of two mistakes within minutes, which shows the text of the
// first.
func (w *Watcher) announce(ctx context.Context, f *file, kind, reason, note string) {
	if w.deps.Events == nil {
		return
	}
	instance, err := os.Hostname()
	if err != nil || instance == "" {
		instance = "rouse"
	}
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: f.name.Namespace, GenerateName: f.name.Name + "-"},
		EventTime:           metav1.NowMicro(),
		ReportingController: "rouse.run/settings",
		ReportingInstance:   kube.Truncate(instance, 128),
		Action:              "Configure",
		Reason:              reason,
		Type:                kind,
		Note:                kube.Truncate(note, maxEventNote),
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "ConfigMap", Namespace: f.name.Namespace, Name: f.name.Name, UID: f.uid,
		},
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	if err := w.deps.Events.Create(ctx, event); err != nil {
		w.deps.Log.Info("cannot write an Event on the ConfigMap of settings", "reason", err.Error())
	}
}
