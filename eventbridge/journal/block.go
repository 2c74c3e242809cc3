package journal

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// blockRecords is how many records a block holds, and a reader at a time.
const blockRecords = 128

// ring holds the records of a namespace. Ordinals count all records that it ever had.
type ring struct {
	blocks      []block // the oldest first; only the last one is written to
	names       index   // of the last block
	first, next uint64  // ordinals of the first record in the ring, and of the next one
	last        uint64  // number of the last record

	newer, older *ring // ordered by the last record
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

// grow adds a block, about as large as the one before.
func (r *ring) grow(number uint64) {
	next := block{first: r.next, number: number}
	if last := len(r.blocks) - 1; last >= 0 {
		next.data = make([]byte, 0, len(r.blocks[last].data)+len(r.blocks[last].data)/8)
	}
	r.names.clear()
	r.last = number // the first record of a block has no distance
	r.blocks = append(r.blocks, next)
}

// drop removes the oldest record, and reports whether it was the only one of its block or of the ring.
func (r *ring) drop() bool {
	r.first++
	if r.first < r.blocks[0].first+blockRecords {
		return r.first == r.next
	}
	r.blocks = slices.Delete(r.blocks, 0, 1)
	return true
}

// blockOf returns a copy of the block that holds a record.
func (r *ring) blockOf(ordinal uint64) block {
	return r.blocks[(ordinal-r.blocks[0].first)/blockRecords]
}

// from returns the ordinal of the first block that can have a record of a number, or of one after it, that happened at a time or later.
func (r *ring) from(number uint64, at int64) uint64 {
	last := len(r.blocks) - 1
	for i := range r.blocks {
		if r.blocks[i].latest >= at && (i == last || r.blocks[i+1].number > number) {
			return max(r.first, r.blocks[i].first)
		}
	}
	return r.next
}

// block holds records one after the other: numbers as varints, times as differences, and names that most records share
// as a number each. Written bytes and names never change, so a copy of a block is read without a lock.
type block struct {
	first  uint64 // ordinal of its first record
	number uint64 // number of its first record; each further one has its distance
	count  int
	base   int64 // nanoseconds to which the records' times are relative
	latest int64 // the greatest time of a record, in nanoseconds
	data   []byte
	names  []string
}

const sharedNames = 8

// index finds the names of the block that is written to.
type index struct {
	numbers map[string]uint64
	// last are the names of the record before, which most records repeat.
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

// add appends a record.
func (b *block) add(r *Record, distance uint64, names *index) {
	at := r.Time.UnixNano()
	if b.count == 0 {
		b.base, b.latest = at, at
	}
	b.latest = max(b.latest, at)
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

// numberOf returns the number of a name, which the block copies: from 1, and 0 for an empty name.
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

// reader decodes what add has written.
type reader struct {
	data   []byte
	at     int
	number uint64 // of the last record
}

// texts are the bytes of an id, a cause and a trace, one after the other.
type texts struct {
	bytes []byte
	sizes [3]int
}

// of sets a record's texts to a copy that holds no other memory.
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

// MaxText bounds the bytes of an id, a source or a type in a record.
const MaxText = 512

func cut(text string) string {
	if len(text) <= MaxText {
		return text
	}
	return strings.ToValidUTF8(text[:MaxText], "")
}
