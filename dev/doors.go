package dev

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/door"
)

// doorsOf returns the Doors of the folder with the keys in its Secrets, and what an API server would add to them.
func doorsOf(set manifest.Set) []door.Known {
	all := make([]door.Known, len(set.Doors))
	for i, each := range set.Doors {
		opened := each.DeepCopy()
		opened.UID = types.UID("local-" + each.Namespace + "-" + each.Name)
		opened.Generation = generationOf(&each.Spec)
		all[i] = door.Known{Door: opened, Keys: set.DoorKeys(opened)}
	}
	return all
}
