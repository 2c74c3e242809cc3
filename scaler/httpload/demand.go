package httpload

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
)

// signFor is how long a Function counts as active after the last sign of a call. It is longer than the pause between two looks.
const signFor = 5 * time.Second

// Demand is what HTTP asks of a Function over time. It is a plain value without a lock or a clock. Its methods get what
// gateways hold at that moment, which they report without being asked.
type Demand struct {
	look   Look
	looked bool
	load   uint64
	busy   time.Time // the newest sign of a call
	listed time.Time // since when activators are listed; zero while they are not
}

// Called records that a gateway has taken a request.
func (d *Demand) Called(now time.Time) { d.busy = now }

// Looked records what was seen, and returns the load. Calls of the look before were there until a moment ago. The first look
// has nothing to compare counters with.
func (d *Demand) Looked(now time.Time, look Look) uint64 {
	called := d.load > 0 || d.looked && look.Moved(d.look)
	d.load = look.Load(d.look)
	d.look, d.looked = look, true
	if called || d.load > 0 {
		d.busy = now
	}
	return d.load
}

// SetListed records whether activators are listed.
func (d *Demand) SetListed(now time.Time, listed bool) {
	switch {
	case !listed:
		d.listed = time.Time{}
	case d.listed.IsZero():
		d.listed = now
	}
}

// Busy is the time of the newest sign of a call; zero before the first.
func (d *Demand) Busy() time.Time { return d.busy }

// Active reports whether calls wait, or were seen a moment ago.
func (d *Demand) Active(now time.Time, held uint64) bool {
	return held > 0 || now.Before(d.busy.Add(signFor))
}

// Idle reports whether there are no calls, as far as the last look and the gateways say.
func (d *Demand) Idle(now time.Time, held uint64) bool {
	return d.looked && d.load == 0 && !d.Active(now, held)
}

// MaySleep reports whether the pods that there are may go.
func (d *Demand) MaySleep(now time.Time, held uint64, pods bool, grace time.Duration) bool {
	if !d.Idle(now, held) {
		return false
	}
	listed := !d.listed.IsZero() && !now.Before(d.listed.Add(grace))
	return !pods || listed && !now.Before(d.busy.Add(grace))
}

// mostFunctions bounds what is kept of one gateway. There are fewer ports for Functions.
const mostFunctions = 1 << 15

type loads = map[types.NamespacedName]activation.FunctionLoad

// ledger is what one gateway has reported. It outlasts streams, so that requests between two of them are noticed. It is a
// plain value without a lock.
type ledger struct {
	begun bool // a stream has begun
	loads loads
}

// begin takes the first line of a stream, which has all Functions, and returns those that have a call or had one since the
// stream before. What a gateway counted before its first stream may be long ago.
func (l *ledger) begin(line loads) (called []types.NamespacedName, err error) {
	if len(line) > mostFunctions {
		return nil, tooMany(len(line))
	}
	for function, load := range line {
		if load.Waiting+load.Running > 0 || l.begun && load.Requests != l.loads[function].Requests {
			called = append(called, function)
		}
	}
	l.begun, l.loads = true, line
	return called, nil
}

// change takes a further line, which has what has changed, and returns the Functions that were called.
func (l *ledger) change(line loads) (called []types.NamespacedName, err error) {
	for function, load := range line {
		before, known := l.loads[function]
		if !known && len(l.loads) >= mostFunctions {
			return nil, tooMany(len(l.loads) + 1)
		}
		if load.Requests > before.Requests {
			called = append(called, function)
		}
		l.loads[function] = load
	}
	return called, nil
}

func tooMany(functions int) error {
	return fmt.Errorf("the gateway reports %d Functions, more than the limit of %d", functions, mostFunctions)
}
