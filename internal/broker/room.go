package broker

// Room is the memory that a Source may fill with messages. Sources may share one.
type Room interface {
	// Take acquires up to most bytes and returns how many, or 0 if fewer than the least are free.
	Take(least, most int64) int64
	// Force acquires bytes even if they are not free.
	Force(bytes int64)
	// Give releases bytes.
	Give(bytes int64)
	// Freed has a value when bytes were released after some were refused.
	Freed() <-chan struct{}
}

// unlimitedBudget is the MemoryBudget of a Source without one.
type unbounded struct{}

func (unbounded) Take(_, most int64) int64 { return most }
func (unbounded) Force(int64)              {}
func (unbounded) Give(int64)               {}
func (unbounded) Freed() <-chan struct{}   { return nil }

// What a message that is held takes: a goroutine, a connection and its buffers, and the event as it is stored, decoded
// and written.
const (
	messageOverhead = 16 << 10
	messageFactor   = 3
)

// RoomOf is the memory that a message of so many bytes takes.
func RoomOf(size int) int64 { return messageOverhead + messageFactor*int64(size) }

const (
	// IdleRoom is what the standing request of a Source without messages takes.
	IdleRoom = 64 << 10
	// usualSize is what a message is expected to have before one has come, and sizeSlack what one has beside its
	// header and data.
	usualSize = 1 << 10
	sizeSlack = 1 << 10
	// sizeDecay is the part by which the size that is expected shrinks with each smaller message.
	forgetting = 64
)

// batchSizer is how much a source asks for at a time: little after a rest, and more while requests are used up quickly.
type appetite struct {
	batch int // at most
	want  int
	size  int // of a message
}

func newAppetite(batch int) appetite {
	return appetite{batch: batch, want: int(max(IdleRoom/RoomOf(usualSize), 1)), size: usualSize}
}

// observe records the size of a message.
func (a *appetite) saw(size int) {
	a.size = max(size, a.size-a.size/forgetting, usualSize)
}

// completed records that all of a request has come, and whether that was quick.
func (a *appetite) usedUp(quick bool) {
	if quick {
		a.want = min(2*a.want, a.batch)
	} else {
		a.want = max(a.want/2, 1)
	}
}

// reset records that nothing has come for long.
func (a *appetite) rested() { *a = newAppetite(a.batch) }

// bounds are the least and the most that a request is to take.
func (a *appetite) bounds() (least, most int64) {
	least = RoomOf(a.size)
	return least, max(least*int64(a.want), IdleRoom)
}

// request is what may be asked for within so many bytes of memory.
func (a *appetite) request(memory int64) (messages, bytes int) {
	messages = int(min(max(memory/RoomOf(a.size), 1), int64(max(a.want, int(IdleRoom/RoomOf(a.size)))), int64(a.batch)))
	return messages, max(int(memory-int64(messages)*messageOverhead)/messageFactor, 1)
}
