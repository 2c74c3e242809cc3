package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/eventbridge/admin"
)

// differ writes what a page has to change of the state that it has, as JSON: in "set" objects by kind and key, which replace those it has,
// in "gone" the keys of those that are gone. The first change has everything.
type differ struct {
	begun bool
	taken time.Time // of the state that the page has
	turn  int
	seed  maphash.Seed
	known map[string]map[string]sent // by kind and key

	change  bytes.Buffer
	encoder *json.Encoder // into change
	err     error         // the first one of a turn
}

// sent is an object that a page has.
type sent struct {
	sum  uint64 // of its JSON
	turn int    // in which it was there last
}

func newDiffer() *differ {
	d := &differ{seed: maphash.MakeSeed(), known: map[string]map[string]sent{}}
	d.encoder = json.NewEncoder(&d.change)
	return d
}

// size returns the number of objects.
func (d *differ) size() int {
	n := 0
	for _, objects := range d.known {
		n += len(objects)
	}
	return n
}

// diff returns what has changed, nil for nothing.
func (d *differ) diff(s *Snapshot) ([]byte, error) {
	if !s.Taken.IsZero() && s.Taken.Equal(d.taken) {
		return nil, nil
	}
	d.turn++
	d.err = nil
	d.change = bytes.Buffer{} // the first change is large, and the next ones are not
	d.change.WriteString(`{"set":{`)
	empty := d.change.Len()
	add(d, "functions", s.Functions, func(_ int, f *Function) string { return f.Namespace + "/" + f.Name })
	add(d, "subscriptions", s.Subscriptions, func(_ int, s *Subscription) string { return s.Namespace + "/" + s.Name })
	add(d, "exposures", s.Exposures, func(_ int, e *Exposure) string { return e.Kind + " " + e.Namespace + "/" + e.Name })
	add(d, "streams", s.Streams, func(_ int, s *Stream) string { return s.Name })
	add(d, "problems", s.Problems, func(i int, _ *Problem) string { return strconv.Itoa(i) })
	add(d, "schedules", s.Schedules, func(_ int, s *admin.Schedule) string { return s.Namespace + "/" + s.Name })
	gone := d.gone()
	nothing := d.begun && d.change.Len() == empty && len(gone) == 0
	d.change.WriteString(`},"gone":`)
	d.encode(gone)
	d.change.WriteString(`}`)
	if d.err != nil {
		return nil, fmt.Errorf("write the state: %w", d.err)
	}
	d.begun, d.taken = true, s.Taken
	if nothing {
		return nil, nil
	}
	return d.change.Bytes(), nil
}

// add writes the objects of a kind that the page does not have as they are.
func add[T any](d *differ, kind string, all []T, key func(int, *T) string) {
	known := d.known[kind]
	if known == nil {
		known = make(map[string]sent, len(all))
		d.known[kind] = known
	}
	start := d.change.Len()
	d.separate()
	d.encode(kind)
	d.change.WriteString(":{")
	empty := d.change.Len()
	for i := range all {
		name, before := key(i, &all[i]), d.change.Len()
		d.separate()
		d.encode(name)
		d.change.WriteByte(':')
		value := d.change.Len()
		d.encode(&all[i])
		now := sent{maphash.Bytes(d.seed, d.change.Bytes()[value:]), d.turn}
		if has, is := known[name]; is && has.sum == now.sum {
			d.change.Truncate(before)
		}
		known[name] = now
	}
	if d.change.Len() == empty {
		d.change.Truncate(start)
		return
	}
	d.change.WriteByte('}')
}

// separate writes a comma behind what is not the beginning of an object.
func (d *differ) separate() {
	if text := d.change.Bytes(); text[len(text)-1] != '{' {
		d.change.WriteByte(',')
	}
}

func (d *differ) encode(value any) {
	if err := d.encoder.Encode(value); err != nil && d.err == nil {
		d.err = err
		return
	}
	d.change.Truncate(d.change.Len() - 1) // the line break
}

// gone forgets the objects that were not there in this turn, and returns their keys by kind.
func (d *differ) gone() map[string][]string {
	gone := map[string][]string{}
	for kind, known := range d.known {
		for key, has := range known {
			if has.turn != d.turn {
				delete(known, key)
				gone[kind] = append(gone[kind], key)
			}
		}
		slices.Sort(gone[kind])
	}
	return gone
}
