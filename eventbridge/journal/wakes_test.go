package journal

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
)

func woken(at time.Time, sent int64) activation.Wake {
	return activation.Wake{Cause: activation.WokenByPublish, Began: at, SentMS: sent, ReadyMS: 900}
}

func TestTheLastWakeOfAFunctionIsRemembered(t *testing.T) {
	t.Parallel()
	price, now := types.NamespacedName{Namespace: "shop", Name: "price"}, time.Unix(1e9, 0).UTC()
	w := NewWakes()
	require.Empty(t, w.In("shop"))

	w.Add(price, woken(now, 0))
	w.Add(price, woken(now.Add(3*time.Millisecond), 4))
	require.Equal(t, []FunctionWake{{"shop", "price", woken(now.Add(3*time.Millisecond), 4)}}, w.In("shop"), "KEDA has the stream of another scaler")
	w.Add(price, woken(now, 0))
	require.Equal(t, int64(4), w.In("shop")[0].SentMS)

	w.Add(price, woken(now.Add(time.Minute), 0))
	w.Add(price, woken(now, 2))
	require.Equal(t, now.Add(time.Minute), w.In("shop")[0].Began, "an older one came late")
	require.Empty(t, w.In("bank"))
}

func TestANamespaceLeavesRoomForTheWakesOfOthers(t *testing.T) {
	t.Parallel()
	w, now := NewWakes(), time.Unix(1e9, 0)
	for i := range mostWakes {
		w.Add(types.NamespacedName{Namespace: "hostile", Name: fmt.Sprint("f", i)}, woken(now.Add(time.Duration(i)*time.Second), 1))
	}
	held := len(w.In("hostile"))
	require.LessOrEqual(t, held, mostWakes/2)
	require.Equal(t, fmt.Sprint("f", mostWakes-1), w.In("hostile")[held-1].Name, "it loses its own oldest")

	w.Add(types.NamespacedName{Namespace: "shop", Name: "price"}, woken(now, 1))
	require.Len(t, w.In("shop"), 1)
	require.Len(t, w.all, held+1)
}
