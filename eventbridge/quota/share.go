package quota

import "k8s.io/apimachinery/pkg/types"

// relief is how far below its share a namespace gets that was over it, so that it is not over it again at once.
const relief = 0.9

// Amount of events.
type Amount struct {
	Events uint64
	Bytes  int64
}

// Held is what waits for a Subscription, and in what kind of consumer.
type Held struct {
	Subscription types.NamespacedName
	UID          types.UID // of the Subscription that the consumer was made for
	Ordered      bool      // the consumer keeps an order
	Amount
}

// allowances are how many events may wait for the Subscriptions of each namespace that keeps more than a share. A
// Subscription that is not in it may keep what it has.
func allowances(all []Held, share Amount) map[types.NamespacedName]uint64 {
	kept := map[string]Amount{}
	for _, held := range all {
		sum := kept[held.Subscription.Namespace]
		sum.Events += held.Events
		sum.Bytes += held.Bytes
		kept[held.Subscription.Namespace] = sum
	}
	allowed := map[types.NamespacedName]uint64{}
	if len(kept) < 2 {
		return allowed
	}
	for _, held := range all {
		sum := kept[held.Subscription.Namespace]
		if sum.Events <= share.Events && sum.Bytes <= share.Bytes {
			continue
		}
		keep := relief * min(part(float64(share.Events), float64(sum.Events)), part(float64(share.Bytes), float64(sum.Bytes)))
		allowed[held.Subscription] = uint64(keep * float64(held.Events))
	}
	return allowed
}

func part(share, sum float64) float64 {
	if sum <= share {
		return 1
	}
	return share / sum
}
