package endpoint

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type closer struct{ closed atomic.Int32 }

func (c *closer) Close() error {
	c.closed.Add(1)
	return nil
}

func TestIdleConnectionsAreTakenInTurnFromTheNewestOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		idle := NewIdle[*closer](2, nil)
		first, second, third := &closer{}, &closer{}, &closer{}
		for _, each := range []*closer{first, second, third} {
			require.True(t, idle.Keep(each))
		}
		require.EqualValues(t, 1, third.closed.Load(), "there are enough")
		taken, ok := idle.Take()
		require.True(t, ok)
		require.Same(t, second, taken)
		idle.Close()
		require.EqualValues(t, 1, first.closed.Load())
		require.Zero(t, second.closed.Load())
		_, ok = idle.Take()
		require.False(t, ok)
	})
}

func TestIdleConnectionsExpireInTheirTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		idle := NewIdle[*closer](10, nil)
		old, used := &closer{}, &closer{}
		idle.Keep(old)
		idle.Keep(used)
		time.Sleep(IdleTimeout / 2)
		synctest.Wait()
		taken, _ := idle.Take()
		require.Same(t, used, taken)
		idle.Keep(used)
		time.Sleep(IdleTimeout/2 + time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 1, old.closed.Load())
		require.Zero(t, used.closed.Load())
		time.Sleep(IdleTimeout / 2)
		synctest.Wait()
		require.EqualValues(t, 1, used.closed.Load())
		require.True(t, idle.Keep(&closer{}), "without retire it goes on")
	})
}

func TestIdleRetiresWhenItsLastConnectionHasExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var retired atomic.Int32
		idle := NewIdle[*closer](10, func() { retired.Add(1) })
		idle.Keep(&closer{})
		taken, _ := idle.Take()
		time.Sleep(IdleTimeout / 2)
		synctest.Wait()
		idle.Keep(taken)
		time.Sleep(IdleTimeout/2 + time.Millisecond) // the timer of the first use
		synctest.Wait()
		require.Zero(t, retired.Load())
		time.Sleep(IdleTimeout)
		synctest.Wait()
		require.EqualValues(t, 1, retired.Load())
		late := &closer{}
		require.False(t, idle.Keep(late))
		require.Zero(t, late.closed.Load())
	})
}
