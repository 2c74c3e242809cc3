package door

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/flags"
)

// Share is what one namespace may have.
type Share struct {
	// Doors of a namespace.
	Doors int
}

// DefaultShare returns the chart's default.
func DefaultShare() Share {
	const doors = 50
	return Share{Doors: doors}
}

// Flags implements flags.Options.
func (s *Share) Flags(fs *flags.Set) {
	fs.Int(&s.Doors, "doors-per-namespace", "Doors that a namespace may have; more are not Ready").AtLeast(0)
}

// Over returns why Doors exceed the share of their namespace, by their UIDs. The oldest have precedence. All are of one namespace.
func (s Share) Over(all []*v1alpha1.Door) map[string]string {
	all = slices.DeleteFunc(slices.Clone(all), func(d *v1alpha1.Door) bool { return d.DeletionTimestamp != nil })
	slices.SortFunc(all, ByAge)
	over := map[string]string{}
	for _, each := range all[min(s.Doors, len(all)):] {
		over[string(each.UID)] = fmt.Sprintf("the namespace has %d older Doors, and may have %d: delete others", s.Doors, s.Doors)
	}
	return over
}

// ByAge orders Doors: of two that want the same, the first has it.
func ByAge(a, b *v1alpha1.Door) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Known is a Door with the contents of its Secret, nil while that is missing.
type Known struct {
	Door *v1alpha1.Door
	Keys *Keys
}

// Equal reports whether both have the same contents.
func (k *Keys) Equal(other *Keys) bool {
	if k == nil || other == nil {
		return k == other
	}
	return bytes.Equal(k.Current, other.Current) && bytes.Equal(k.Previous, other.Previous)
}

// KeyName names a key of the Secret of a Door, or of a Subscription that signs, in the Secret from which bridges read all.
func KeyName(owner metav1.Object, key string) string {
	return string(owner.GetUID()) + "." + owner.GetNamespace() + "." + key
}

// KeyOwner returns the UID of the object whose key it is, and its namespace.
func KeyOwner(name string) (types.UID, string) {
	parts := strings.Split(name, ".")
	const three = 3
	if len(parts) != three {
		return "", ""
	}
	return types.UID(parts[0]), parts[1]
}
