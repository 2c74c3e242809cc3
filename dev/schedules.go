package dev

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/dev/manifest"
)

// schedulesOf returns the Schedules of the folder, with what an API server would add to them. A Schedule with a problem is as if it
// were gone: its times go on from where they were.
func schedulesOf(set manifest.Set, began time.Time) []*rousev1alpha1.Schedule {
	all := make([]*rousev1alpha1.Schedule, len(set.Schedules))
	for i, each := range set.Schedules {
		all[i] = each.DeepCopy()
		all[i].UID = types.UID("local-" + each.Namespace + "-" + each.Name)
		all[i].Generation = generationOf(&each.Spec)
		all[i].CreationTimestamp = metav1.NewTime(began.Truncate(time.Second))
	}
	return all
}
