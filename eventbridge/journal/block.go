package journal

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// blockRecords is how many records a block takes, and a reader holds at a time.
const blockRecords = 128

// ring has the records of a namespace that are remembered. Ordinals count those that it ever had.
type ring struct {
	blocks      []block // the oldest first; only the last one is being written
	names       index   // of the last one
	first, next uint64  // ordinals of the first record that is remembered, and of the next that will be
	last        uint64  // number of the last record

	newer, older *ring // by the last record
}

func newRing() *ring { return &ring{names: index{numbers: map[string]uint64{}}} }

func (r *ring) len() int { return int(r.next - r.first) }

func (r *ring) add(record *Record, number uint64) {
	if len(r.blocks) == 0 || r.blocks[len(r.blocks)-1].count == blockRecords {
		r.grow(number)
	}
	r.blocks[len(r.blocks)-1].add(record, number-r.last, &r.names)
	r.last = number
	r.next++
}

// grow makes the next block, which will be about as large as the one before.
func (r *ring) grow(number uint64) {
	next := block{first: r.next, number: number}
	if last := len(r.blocks) - 1; last >= 0 {
		next.data = make([]byte, 0, len(r.blocks[last].data)+len(r.blocks[last].data)/8)
	}
	r.names.clear()
	r.last = number // the first record of a block is at no distance
	r.blocks = append(r.blocks, next)
}

// drop forgets the oldest record, and reports whether its block or the ring has no other.
func (r *ring) drop() bool {
	r.first++
	if r.first < r.blocks[0].first+blockRecords {
		return r.first == r.next
	}
	r.blocks = slices.Delete(r.blocks, 0, 1)
	return true
}

// blockOf is a copy of the block of a record that is remembered.
func (r *ring) blockOf(ordinal uint64) block {
	return r.blocks[(ordinal-r.blocks[0].first)/blockRecords]
}

// block has records one behind the other: numbers as varints, times as their distance from each other, and by a number
// each the names that most records of a bridge share. Bytes and names that are written never change, so who has a copy
// of a block reads it without a lock.
type block struct {
	first  uint64 // ordinal of its first record
	number uint64 // and its number; each further one has its distance
	count  int
	base   int64 // nanoseconds, from which the records' times count
	data   []byte
	names  []string
}

const sharedNames = 8

// index finds the names of the block that is being written.
type index struct {
	numbers map[string]uint64
	// last are those of the record before, which most records repeat.
	last        [sharedNames]string
	lastNumbers [sharedNames]uint64
}

func (x *index) clear() { *x = index{numbers: x.numbers}; clear(x.numbers) }

const (
	ofDeadLetter = 1 << iota
	hasStored
	hasBegan
	hasDue
)

// add writes a record behind the others.
func (b *block) add(r *Record, distance uint64, names *index) {
	at := r.Time.UnixNano()
	if b.count == 0 {
		b.base = at
	}
	data := binary.AppendUvarint(b.data, distance)
	data = binary.AppendUvarint(data, r.flags())
	data = binary.AppendVarint(data, at-b.base)
	data = binary.AppendVarint(data, int64(r.Took))
	if !r.Stored.IsZero() {
		data = binary.AppendVarint(data, at-r.Stored.UnixNano())
	}
	if !r.Began.IsZero() {
		data = binary.AppendVarint(data, at-r.Began.UnixNano())
	}
	if r.Due != nil {
		data = binary.AppendVarint(data, at-r.Due.UnixNano())
	}
	for _, number := range [...]int{r.Attempt, r.Status, r.Count} {
		data = binary.AppendVarint(data, int64(number))
	}
	for i, name := range [sharedNames]string{
		string(r.Kind), cut(r.Source), cut(r.Type), r.Namespace, r.Subscription, r.Sink, r.Reason, r.Message,
	} {
		data = binary.AppendUvarint(data, b.numberOf(i, name, names))
	}
	texts := [...]string{cut(r.ID), cut(r.Cause), cut(r.Trace)}
	for _, text := range texts {
		data = binary.AppendUvarint(data, uint64(len(text)))
	}
	for _, text := range texts {
		data = append(data, text...)
	}
	b.data = data
	b.count++
}

func (r *Record) flags() (flags uint64) {
	if r.DeadLetter {
		flags |= ofDeadLetter
	}
	if !r.Stored.IsZero() {
		flags |= hasStored
	}
	if !r.Began.IsZero() {
		flags |= hasBegan
	}
	if r.Due != nil {
		flags |= hasDue
	}
	return flags
}

// numberOf is that of a name, a copy of which the block keeps: from 1, and 0 for none.
func (b *block) numberOf(i int, name string, names *index) uint64 {
	if name == "" {
		return 0
	}
	if name == names.last[i] {
		return names.lastNumbers[i]
	}
	number, known := names.numbers[name]
	if !known {
		name = strings.Clone(name)
		b.names = append(b.names, name)
		number = uint64(len(b.names))
		names.numbers[name] = number
	}
	names.last[i], names.lastNumbers[i] = b.names[number-1], number
	return number
}

func (b *block) name(number uint64) string {
	if number == 0 {
		return ""
	}
	return b.names[number-1]
}

// reader reads what add has written.
type reader struct {
	data   []byte
	at     int
	number uint64 // of the last record
}

// texts are the bytes of an id, a cause and a trace, one behind the other.
type texts struct {
	bytes []byte
	sizes [3]int
}

// of gives a record its texts, as a copy that keeps nothing else alive.
func (t texts) of(r Record) Record {
	rest := string(t.bytes)
	for i, text := range [...]*string{&r.ID, &r.Cause, &r.Trace} {
		*text, rest = rest[:t.sizes[i]], rest[t.sizes[i]:]
	}
	return r
}

func (r *reader) record(b *block) (record Record, t texts) {
	r.number += r.uvarint()
	flags := r.uvarint()
	at := b.base + r.varint()
	record.Time, record.Took = instant(at), time.Duration(r.varint())
	record.DeadLetter = flags&ofDeadLetter != 0
	if flags&hasStored != 0 {
		record.Stored = instant(at - r.varint())
	}
	if flags&hasBegan != 0 {
		record.Began = instant(at - r.varint())
	}
	if flags&hasDue != 0 {
		due := instant(at - r.varint())
		record.Due = &due
	}
	for _, number := range [...]*int{&record.Attempt, &record.Status, &record.Count} {
		*number = int(r.varint())
	}
	record.Kind = Kind(b.name(r.uvarint()))
	for _, name := range [...]*string{
		&record.Source, &record.Type, &record.Namespace, &record.Subscription, &record.Sink, &record.Reason, &record.Message,
	} {
		*name = b.name(r.uvarint())
	}
	size := 0
	for i := range t.sizes {
		t.sizes[i] = int(r.uvarint())
		size += t.sizes[i]
	}
	t.bytes = r.data[r.at : r.at+size]
	r.at += size
	return record, t
}

func instant(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }

func (r *reader) varint() int64 {
	number, size := binary.Varint(r.data[r.at:])
	r.at += size
	return number
}

func (r *reader) uvarint() uint64 {
	number, size := binary.Uvarint(r.data[r.at:])
	r.at += size
	return number
}

// MaxText is how many bytes of an id, a source or a type are kept.
const MaxText = 512

func cut(text string) string {
	if len(text) <= MaxText {
		return text
	}
	return strings.ToValidUTF8(text[:MaxText], "")
}
