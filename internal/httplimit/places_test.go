package httplimit

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// guest is a client that the server may have waited for since a time.
type guest struct {
	Place
	since   int64
	evicted int
}

func (g *guest) WaitsSince(int64) int64 { return g.since }
func (g *guest) Evict()                 { g.evicted++ }

// placesAt returns places whose clock returns *now.
func placesAt(now *time.Time, total int, perKey ...int) *Places {
	p := NewPlaces(total, perKey...)
	p.now = func() time.Time { return *now }
	return p
}

func taken(t *testing.T, p *Places, since int64, keys ...Key) *guest {
	t.Helper()
	g := &guest{since: since}
	ok, _ := p.Take(&g.Place, g, keys...)
	require.True(t, ok)
	return g
}

func refused(t *testing.T, p *Places, keys ...Key) {
	t.Helper()
	g := &guest{}
	ok, _ := p.Take(&g.Place, g, keys...)
	require.False(t, ok)
	g.Leave()
}

func TestAKeyTakesNoMorePlacesThanItLeavesFree(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := placesAt(&now, 8, 0)
	for range 4 {
		taken(t, p, 0, Key{Name: "a"})
	}
	refused(t, p, Key{Name: "a"})
	taken(t, p, 0, Key{Name: "b"})
	taken(t, p, 0, Key{Name: "b"})
	refused(t, p, Key{Name: "b"})
	taken(t, p, 0, Key{Name: "c"})
	require.Equal(t, 7, p.Held())
}

func TestFurtherClientEvictsTheSlowestOfItsKey(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := placesAt(&now, 6, 3)
	other := taken(t, p, 1, Key{Name: "b"})
	busy, slow, slowest := taken(t, p, 0, Key{Name: "a"}), taken(t, p, 3, Key{Name: "a"}), taken(t, p, 2, Key{Name: "a"})
	taken(t, p, 0, Key{Name: "a"})
	require.Equal(t, []int{0, 0, 0, 1}, []int{other.evicted, busy.evicted, slow.evicted, slowest.evicted})
	slowest.Leave()
	taken(t, p, 0, Key{Name: "a"})
	require.Equal(t, 1, slow.evicted)
	refused(t, p, Key{Name: "a"})
	require.Equal(t, 4, p.Held())
}

func TestFurtherClientEvictsTheSlowestOfTheKeyWithMost(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := placesAt(&now, 3, 0)
	one := taken(t, p, 1, Key{Name: "one"})
	proxy := Key{Name: "proxy", Unshared: true}
	first, second := taken(t, p, 3, proxy), taken(t, p, 2, proxy)
	taken(t, p, 0, Key{Name: "new"})
	require.Equal(t, []int{0, 0, 1}, []int{one.evicted, first.evicted, second.evicted})
	require.Equal(t, 3, p.Held())
}

func TestFruitlessSearchIsNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := placesAt(&now, 2, 1)
	g := taken(t, p, 0, Key{Name: "a"})
	refused(t, p, Key{Name: "a"})
	g.since = 1
	refused(t, p, Key{Name: "a"})
	now = now.Add(searchAgain)
	taken(t, p, 0, Key{Name: "a"})
	require.Equal(t, 1, g.evicted)
}

func TestClientRejectedForOneKeyHoldsNothingOfTheOther(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := placesAt(&now, 8, 0, 1)
	taken(t, p, 0, Key{Name: "a"}, Key{Name: "shop"})
	for range 10 {
		refused(t, p, Key{Name: "b"}, Key{Name: "shop"})
	}
	taken(t, p, 0, Key{Name: "b"}, Key{Name: "other"})
	require.Equal(t, 2, p.Held())
}

// Shares and places must agree after any sequence.
func TestPlacesAndSharesAgree(t *testing.T) {
	t.Parallel()
	now, random := time.Unix(1000, 0), rand.New(rand.NewPCG(1, 2))
	p := placesAt(&now, 20, 0, 0, 5)
	var all []*guest
	for range 20_000 {
		now = now.Add(time.Millisecond)
		if len(all) > 0 && random.IntN(3) == 0 {
			i := random.IntN(len(all))
			all[i].Leave()
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
			continue
		}
		key := func() Key { return Key{Name: strconv.Itoa(random.IntN(4)), Unshared: random.IntN(9) == 0} }
		g := &guest{since: int64(max(0, random.IntN(1000)-500))}
		if ok, _ := p.Take(&g.Place, g, key(), key(), key()); ok {
			all = append(all, g)
		}
		require.LessOrEqual(t, p.Held(), 20)
		held := 0
		for _, each := range all {
			if each.held {
				held++
			}
		}
		require.Equal(t, held, p.Held())
	}
	for _, each := range all {
		each.Leave()
	}
	require.Zero(t, p.Held())
	for _, each := range p.kinds {
		used, _ := each.shares.Stats()
		require.Zero(t, used)
		require.Empty(t, each.keys)
	}
}

func BenchmarkAPlaceIsTakenAndLeft(b *testing.B) {
	p := NewPlaces(4096, 0, 2048, 1024)
	other := &guest{}
	p.Take(&other.Place, other, Key{Name: "other"}, Key{Name: "other"}, Key{Name: "other"})
	b.ReportAllocs()
	for b.Loop() {
		g := &guest{}
		p.Take(&g.Place, g, Key{Name: "10.0.0.1"}, Key{Name: "shop"}, Key{Name: "shop/price"})
		g.Leave()
	}
}
