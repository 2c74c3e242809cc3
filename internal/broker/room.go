package broker

// Room is the memory that a Source may fill with messages. It may be shared with others.
type Room interface {
	// Take returns how many bytes it takes, up to most, and 0 if there are not even the least.
	Take(least, most int64) int64
	// Force takes bytes that may not be there.
	Force(bytes int64)
	// Give returns bytes.
	Give(bytes int64)
	// Freed has a note when bytes were given after some were refused.
	Freed() <-chan struct{}
}

// unbounded is the Room of a Source that was given none.
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

// RoomOf is what a message of so many bytes takes.
func RoomOf(size int) int64 { return messageOverhead + messageFactor*int64(size) }

const (
	// IdleRoom is what the request takes that a Source without messages has standing.
	IdleRoom = 64 << 10
	// usualSize is what a message is expected to have before one has come, and sizeSlack what one has beside its
	// header and data.
	usualSize = 1 << 10
	sizeSlack = 1 << 10
	// forgetting is the part by which the size that is expected shrinks with each smaller message.
	forgetting = 64
)

// appetite is how much a source asks for at a time: little after a rest, and more while requests are used up quickly.
type appetite struct {
	batch int // at most
	want  int
	size  int // of a message
}

func newAppetite(batch int) appetite {
	return appetite{batch: batch, want: int(max(IdleRoom/RoomOf(usualSize), 1)), size: usualSize}
}

// saw learns the size of a message.
func (a *appetite) saw(size int) {
	a.size = max(size, a.size-a.size/forgetting, usualSize)
}

// usedUp is told that all of a request has come, and whether that was quick.
func (a *appetite) usedUp(quick bool) {
	if quick {
		a.want = min(2*a.want, a.batch)
	} else {
		a.want = max(a.want/2, 1)
	}
}

// rested is told that nothing has come for long.
func (a *appetite) rested() { *a = newAppetite(a.batch) }

// bounds are the least and the most that a request is to take.
func (a *appetite) bounds() (least, most int64) {
	least = RoomOf(a.size)
	return least, max(least*int64(a.want), IdleRoom)
}

// request is what may be asked for in the room that there is.
func (a *appetite) request(room int64) (messages, bytes int) {
	messages = int(min(max(room/RoomOf(a.size), 1), int64(max(a.want, int(IdleRoom/RoomOf(a.size)))), int64(a.batch)))
	return messages, max(int(room-int64(messages)*messageOverhead)/messageFactor, 1)
}
