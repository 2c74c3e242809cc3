package journal

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/fair"
)

// mostWakes bounds the Functions and workloads whose last wake is remembered: some 2 MiB.
const mostWakes = 8192

// sameWake is the time within which wakes of one Function are the same one, as several scalers have seen it.
const sameWake = 5 * time.Second

// FunctionWake is the last wake of a Function or workload.
type FunctionWake struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	activation.Wake
}

// Wakes remembers the last wake of each Function and workload. A namespace has as many places as it leaves free, and loses its own
// oldest when it has no more. It is safe for concurrent use.
type Wakes struct {
	mu     sync.Mutex
	places *fair.Pool
	all    map[types.NamespacedName]*list.Element
	oldest map[string]*list.List // of FunctionWake by namespace, the oldest first
}

// NewWakes returns Wakes that remember nothing yet.
func NewWakes() *Wakes {
	return &Wakes{places: fair.NewPool(fair.Limits{Total: mostWakes}), all: map[types.NamespacedName]*list.Element{}, oldest: map[string]*list.List{}}
}

// Add remembers a wake. Of one that several scalers have seen it keeps what the one saw that told KEDA.
func (w *Wakes) Add(function types.NamespacedName, wake activation.Wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	made := FunctionWake{function.Namespace, function.Name, wake}
	own := w.oldest[function.Namespace]
	if known, ok := w.all[function]; ok {
		if before, _ := known.Value.(FunctionWake); supersedes(wake, before.Wake) {
			known.Value = made
			own.MoveToBack(known)
		}
		return
	}
	if !w.places.TryAcquire(function.Namespace, 1) {
		if own == nil {
			return
		}
		w.drop(own)
	}
	if own == nil {
		own = list.New()
		w.oldest[function.Namespace] = own
	}
	w.all[function] = own.PushBack(made)
}

// drop gives the place of the oldest of a namespace to another one of it.
func (w *Wakes) drop(own *list.List) {
	gone, _ := own.Remove(own.Front()).(FunctionWake)
	delete(w.all, types.NamespacedName{Namespace: gone.Namespace, Name: gone.Name})
}

func supersedes(wake, before activation.Wake) bool {
	if wake.Began.Sub(before.Began).Abs() < sameWake {
		return before.SentMS == 0 && wake.SentMS > 0
	}
	return wake.Began.After(before.Began)
}

// In returns the wakes of a namespace, the oldest first.
func (w *Wakes) In(namespace string) []FunctionWake {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := []FunctionWake{}
	own := w.oldest[namespace]
	if own == nil {
		return found
	}
	for each := own.Front(); each != nil; each = each.Next() {
		if wake, ok := each.Value.(FunctionWake); ok {
			found = append(found, wake)
		}
	}
	return found
}
