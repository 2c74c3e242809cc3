package dispatch_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rouse-run/rouse/eventbridge/dispatch/dispatchtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDispatcherSuiteInMemory(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, func(*testing.T) dispatchtest.Backend { return dispatchtest.NewMemory(dispatchtest.AckWait) })
}
