package dashboard

import (
	"encoding/json"
	"hash/maphash"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/eventbridge/admin"
)

// Change is what a page has to change of the state that it has: objects by kind and key, which replace those it has, and the keys of
// those that are gone. The first one has everything.
type Change struct {
	Set  map[string]map[string]json.RawMessage `json:"set,omitempty"`
	Gone map[string][]string                   `json:"gone,omitempty"`
}

// differ remembers what a page has.
type differ struct {
	begun bool
	taken time.Time
	seed  maphash.Seed
	known map[string]map[string]uint64 // hashes of JSON by kind and key
}

func newDiffer() *differ {
	return &differ{seed: maphash.MakeSeed(), known: map[string]map[string]uint64{}}
}

// size returns the number of objects.
func (d *differ) size() int {
	n := 0
	for _, objects := range d.known {
		n += len(objects)
	}
	return n
}

// diff returns what has changed, and false for nothing.
func (d *differ) diff(s *Snapshot) (change Change, changed bool) {
	if !s.Taken.IsZero() && s.Taken.Equal(d.taken) {
		return change, false
	}
	d.taken = s.Taken
	change = Change{Set: map[string]map[string]json.RawMessage{}, Gone: map[string][]string{}}
	d.add(&change, "functions", each(s.Functions, func(_ int, f *Function) string { return f.Namespace + "/" + f.Name }))
	d.add(&change, "subscriptions", each(s.Subscriptions, func(_ int, s *Subscription) string { return s.Namespace + "/" + s.Name }))
	d.add(&change, "exposures", each(s.Exposures, func(_ int, e *Exposure) string { return e.Kind + " " + e.Namespace + "/" + e.Name }))
	d.add(&change, "streams", each(s.Streams, func(_ int, s *Stream) string { return s.Name }))
	d.add(&change, "problems", each(s.Problems, func(i int, _ *Problem) string { return strconv.Itoa(i) }))
	d.add(&change, "schedules", each(s.Schedules, func(_ int, s *admin.Schedule) string { return s.Namespace + "/" + s.Name }))
	changed = !d.begun || len(change.Set)+len(change.Gone) > 0
	d.begun = true
	return change, changed
}

// each returns objects by their keys.
func each[T any](all []T, key func(int, *T) string) map[string]any {
	objects := make(map[string]any, len(all))
	for i := range all {
		objects[key(i, &all[i])] = &all[i]
	}
	return objects
}

func (d *differ) add(change *Change, kind string, objects map[string]any) {
	known := d.known[kind]
	if known == nil {
		known = make(map[string]uint64, len(objects))
		d.known[kind] = known
	}
	for key, object := range objects {
		text, err := json.Marshal(object)
		if err != nil {
			continue
		}
		sum := maphash.Bytes(d.seed, text)
		if before, there := known[key]; there && before == sum {
			continue
		}
		known[key] = sum
		if change.Set[kind] == nil {
			change.Set[kind] = map[string]json.RawMessage{}
		}
		change.Set[kind][key] = text
	}
	for key := range known {
		if _, there := objects[key]; !there {
			delete(known, key)
			change.Gone[kind] = append(change.Gone[kind], key)
		}
	}
}
