package doors

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
)

func number(of string, i int) Delivery { return deliveryOf("uid", of+strconv.Itoa(i), nil) }

func TestTheOldestDeliveriesOfANamespaceGoFirstAndOthersStay(t *testing.T) {
	t.Parallel()
	l := newLedger(&memoryStore{}, logr.Discard())
	now := time.Unix(1792000000, 0)
	l.remember("bank", now, []Delivery{number("bank", 0)})
	for i := range maxOfNamespace + 10 {
		l.remember("shop", now.Add(time.Duration(i)*time.Minute/4), []Delivery{number("shop", i)})
	}
	known, _ := l.find(number("bank", 0))
	require.True(t, known)
	known, _ = l.find(number("shop", 0))
	require.False(t, known)
	known, _ = l.find(number("shop", maxOfNamespace+9))
	require.True(t, known)
	require.LessOrEqual(t, l.spaces["shop"].count, maxOfNamespace)
}

func TestADeliveryIsForgottenAfterItsTime(t *testing.T) {
	t.Parallel()
	l := newLedger(&memoryStore{}, logr.Discard())
	now := time.Unix(1792000000, 0)
	l.remember("shop", now, []Delivery{number("shop", 1)})
	l.remember("shop", now.Add(DeliveriesKept+time.Minute), []Delivery{number("shop", 2)})
	known, _ := l.find(number("shop", 1))
	require.False(t, known)
}

func TestWhatCannotBeStoredStaysPending(t *testing.T) {
	t.Parallel()
	store := &memoryStore{err: errors.New("no answer")}
	l := newLedger(store, logr.Discard())
	for i := range 2*pageSize + 1 {
		l.add("shop", time.Unix(1792000000, 0), number("shop", i))
	}
	l.flush(t.Context())
	require.Empty(t, store.pages)
	store.err = nil
	l.flush(t.Context())
	require.Len(t, store.pages, 2*pageSize+1)
	l.flush(t.Context())
	require.Len(t, store.pages, 2*pageSize+1, "stored once")
}

func TestDeliveriesOfOneIDDifferByDoor(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, deliveryOf("a", "1", nil).Key, deliveryOf("b", "1", nil).Key)
	require.NotEqual(t, deliveryOf("a", "", []byte("x")).Key, deliveryOf("a", "", []byte("y")).Key)
	require.Equal(t, deliveryOf("a", "1", []byte("x")).Key, deliveryOf("a", "1", []byte("y")).Key)
}
