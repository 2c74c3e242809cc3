package dispatch

import "context"

// slots counts free workers.
type slots struct{ free chan struct{} }

func newSlots(n int) slots {
	s := slots{free: make(chan struct{}, n)}
	s.release(n)
	return s
}

// acquire waits for a free worker and takes all that are free then. It returns 0 when ctx ended.
func (s slots) acquire(ctx context.Context) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case <-ctx.Done():
		return 0
	case <-s.free:
	}
	for n := 1; ; n++ {
		select {
		case <-s.free:
		default:
			return n
		}
	}
}

func (s slots) release(n int) {
	for range n {
		s.free <- struct{}{}
	}
}
