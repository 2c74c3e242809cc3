package endpoint

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type closer struct{ closed int }

func (c *closer) Close() error {
	c.closed++
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
		require.Equal(t, 1, third.closed, "there are enough")
		taken, ok := idle.Take()
		require.True(t, ok)
		require.Same(t, second, taken)
		idle.Close()
		require.Equal(t, 1, first.closed)
		require.Zero(t, second.closed)
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
		require.Equal(t, 1, old.closed)
		require.Zero(t, used.closed)
		time.Sleep(IdleTimeout / 2)
		synctest.Wait()
		require.Equal(t, 1, used.closed)
		require.True(t, idle.Keep(&closer{}), "without retire it goes on")
	})
}

func TestIdleRetiresWhenItsLastConnectionHasExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		retired := 0
		idle := NewIdle[*closer](10, func() { retired++ })
		idle.Keep(&closer{})
		taken, _ := idle.Take()
		time.Sleep(IdleTimeout / 2)
		synctest.Wait()
		idle.Keep(taken)
		time.Sleep(IdleTimeout/2 + time.Millisecond) // the timer of the first use
		synctest.Wait()
		require.Zero(t, retired)
		time.Sleep(IdleTimeout)
		synctest.Wait()
		require.Equal(t, 1, retired)
		late := &closer{}
		require.False(t, idle.Keep(late))
		require.Zero(t, late.closed)
	})
}
