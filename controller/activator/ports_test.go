package activator

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
)

func free(int32) bool { return false }

func named(namespace string, number int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: "f" + strconv.Itoa(number)}
}

func TestAPortIsOneFunctionsAlone(t *testing.T) {
	t.Parallel()
	p := newPorts()
	first, err := p.allocate(named("shop", 1), "uid", free, noon())
	require.NoError(t, err)
	require.GreaterOrEqual(t, first, int32(activation.FirstPort))
	require.LessOrEqual(t, first, int32(activation.LastPort))
	other, err := newPorts().allocate(named("shop", 1), "uid", free, noon())
	require.NoError(t, err)
	require.Equal(t, first, other, "another leader would choose the same")

	second, err := p.allocate(named("shop", 2), "uid", free, noon())
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	require.False(t, p.claim(named("shop", 3), first))
	require.True(t, p.claim(named("shop", 3), after(first, 2)))
	known, ok := p.of(named("shop", 1))
	require.True(t, ok)
	require.Equal(t, first, known)

	third, err := p.allocate(named("shop", 4), "uid", func(port int32) bool { return port == after(first, 3) }, noon())
	require.NoError(t, err)
	require.Equal(t, after(first, 4), third, "the one before is in a slice whose Function was not met yet")
	require.Equal(t, 4, p.used())
}

// after is the port so many after another one.
func after(port, count int32) int32 {
	return activation.FirstPort + (port-activation.FirstPort+count)%portCount
}

// Nodes and clients may still send there what is meant for the Function before.
func TestAPortThatIsGivenBackRests(t *testing.T) {
	t.Parallel()
	p := newPorts()
	first, err := p.allocate(named("shop", 1), "uid", free, noon())
	require.NoError(t, err)
	p.release(named("shop", 1), noon())
	p.release(named("shop", 1), noon())
	require.Zero(t, p.used())
	require.Empty(t, p.inSpace)

	soon, err := p.allocate(named("shop", 2), "uid", free, noon().Add(restTime-1))
	require.NoError(t, err)
	require.NotEqual(t, first, soon)
	late, err := p.allocate(named("shop", 3), "uid", free, noon().Add(restTime))
	require.NoError(t, err)
	require.Equal(t, first, late)
}

func TestANamespaceHoldsNoMorePortsThanItLeavesFree(t *testing.T) {
	t.Parallel()
	p := newPorts()
	held := 0
	for ; ; held++ {
		if _, err := p.allocate(named("greedy", held), types.UID(strconv.Itoa(held)), free, noon()); err != nil {
			require.ErrorIs(t, err, errNoPort)
			break
		}
	}
	require.Equal(t, portCount/2, held)
	_, err := p.allocate(named("shop", 1), "uid", free, noon())
	require.NoError(t, err, "others get one")
	require.Equal(t, held+1, p.used())
}

func TestWhereAllPortsAreTakenNoneIsGiven(t *testing.T) {
	t.Parallel()
	p := newPorts()
	_, err := p.allocate(named("shop", 1), "uid", func(int32) bool { return true }, noon())
	require.ErrorIs(t, err, errNoPort)
	require.ErrorContains(t, err, "rouse.run/http-wake: disabled")
	require.Zero(t, p.used())
}
