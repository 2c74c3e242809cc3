package eventbridge

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/sink"
	"github.com/rouse-run/rouse/internal/routing"
)

// replicas counts the bridges that share the limits of deliveries. While one joins or leaves and not all know it, they
// deliver more or less than a limit; the server bounds what they hold together at any time.
type replicas struct {
	service   types.NamespacedName // empty where this is the only one
	endpoints sink.Endpoints
	count     atomic.Int64
}

// publishPort is the one of the Service.
const publishPort = 80

// run counts until ctx ends.
func (r *replicas) run(ctx context.Context) error {
	if r.service.Name == "" {
		<-ctx.Done()
		return nil
	}
	return r.endpoints.Watch(ctx, r.service, publishPort, func(all []routing.Endpoint) {
		delivering := 0
		for _, endpoint := range all {
			if endpoint.Ready || endpoint.Terminating { // it ends its running calls
				delivering++
			}
		}
		r.count.Store(int64(delivering))
	})
}

// limitOf is what this replica may deliver and hold of a route; nil where the server bounds both.
func (r *replicas) limitOf(route routing.Route) dispatch.HoldLimit {
	if route.Ahead() == 0 {
		return nil
	}
	return func() (deliveries, ahead int) { return route.Share(int(r.count.Load())) }
}

func parseService(text string) (types.NamespacedName, error) {
	namespace, name, found := strings.Cut(text, "/")
	if text != "" && (!found || namespace == "" || name == "" || strings.Contains(name, "/")) {
		return types.NamespacedName{}, fmt.Errorf("%q is not namespace/name", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
