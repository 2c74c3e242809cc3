package never

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// failure records that a test failed, and ends it.
type failure struct {
	testing.TB

	failed bool
}

func (f *failure) Errorf(string, ...any) {}

func (f *failure) FailNow() {
	f.failed = true
	panic(f)
}

func (f *failure) run(check func()) {
	defer func() { _ = recover() }()
	check()
}

func TestConditionThatHoldsInTimeFailsTheTest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at    time.Duration
		fails bool
	}{
		"at once":    {0, true},
		"meanwhile":  {500 * time.Millisecond, true},
		"afterwards": {2 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, start := &failure{TB: t}, time.Now()
				f.run(func() {
					Happens(f, func() bool { return time.Since(start) >= tc.at }, time.Second, 10*time.Millisecond)
				})
				require.Equal(t, tc.fails, f.failed)
			})
		})
	}
}
