package dev

import (
	"encoding/json"
	"hash/fnv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/door"
)

// doorsOf returns the Doors of the folder with the keys in its Secrets, as an API server would store them.
func doorsOf(set manifest.Set) []door.Known {
	all := make([]door.Known, len(set.Doors))
	for i, each := range set.Doors {
		opened := each.DeepCopy()
		identify(opened, &each.Spec)
		all[i] = door.Known{Door: opened, Keys: set.DoorKeys(opened)}
	}
	return all
}

// schedulesOf returns the Schedules of the folder, as an API server would store them. A Schedule with a problem is as if it were
// gone: its times go on from where they were.
func schedulesOf(set manifest.Set, began time.Time) []*rousev1alpha1.Schedule {
	all := make([]*rousev1alpha1.Schedule, len(set.Schedules))
	for i, each := range set.Schedules {
		all[i] = each.DeepCopy()
		identify(all[i], &each.Spec)
		all[i].CreationTimestamp = metav1.NewTime(began.Truncate(time.Second))
	}
	return all
}

// identify sets the UID of an object and the generation of its spec.
func identify(object metav1.Object, spec any) {
	object.SetUID(types.UID("local-" + object.GetNamespace() + "-" + object.GetName()))
	object.SetGeneration(generationOf(spec))
}

// generationOf differs for different specs, and is the same after a restart.
func generationOf(spec any) int64 {
	content, _ := json.Marshal(spec) // it was read from JSON
	hash := fnv.New32a()
	_, _ = hash.Write(content)
	return int64(hash.Sum32()) + 2 // the first generation of a Schedule counts from its creation
}
