package httpload

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
)

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
	return fmt.Errorf("it reports %d Functions, which is more than %d", functions, mostFunctions)
}
