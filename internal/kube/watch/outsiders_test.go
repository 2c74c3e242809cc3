package watch

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
)

func TestAnAddressThatIsNoPodsOfItsNamespaceIsLoggedOnceItStaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		o := &outsiders{log: log.WithValues("service", "shop/price")}
		defer o.stop()
		pods := map[string]bool{"10.0.0.1": true}
		see := func(addresses ...string) {
			require.NoError(t, o.read(func(a netip.Addr) bool { return pods[a.String()] }, func(isPod func(netip.Addr) bool) error {
				for _, each := range addresses {
					require.Equal(t, pods[each], isPod(netip.MustParseAddr(each)))
				}
				return nil
			}))
		}
		after := func(wait time.Duration) []string {
			time.Sleep(wait)
			synctest.Wait()
			return lines
		}
		see("10.0.0.1", "10.0.0.2")
		require.Empty(t, after(outsiderPatience-1))
		pods["10.0.0.2"] = true
		see("10.0.0.1", "10.0.0.2")
		require.Empty(t, after(time.Hour), "its pod was read later than the slice")

		see("10.0.0.1", "192.0.2.1", "192.0.2.2")
		require.Equal(t, []string{`"level"=0 "msg"="addresses of a Service are no pods' of its namespace: nothing is sent to them" ` +
			`"service"="shop/price" "address"="192.0.2.1" "addresses"=2`}, after(outsiderPatience))
		for range 1000 { // somebody writes slices over and over
			see("192.0.2.1")
			require.Len(t, after(outsiderPause/2000), 1)
			see("10.0.0.1")
		}
		see("192.0.2.1")
		require.Len(t, after(time.Hour), 2)
		o.stop()
		require.Len(t, after(time.Hour), 2)
	})
}
