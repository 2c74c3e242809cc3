package activator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/activation"
)

// cleanDelay is how soon slices are deleted again that could not be.
const cleanDelay = 10 * time.Second

// cleaner deletes all slices of ours where there are no gateways, or no longer: callers would be led to addresses at
// which nobody answers.
type cleaner struct {
	reader client.Reader // past the cache, which needs not watch slices for this
	writer client.Writer
	log    logr.Logger
}

// Start deletes them once.
func (c *cleaner) Start(ctx context.Context) error {
	for {
		deleted, err := c.clean(ctx)
		if deleted > 0 {
			c.log.Info("deleted the EndpointSlices that list activators, because there are no gateways", "slices", deleted)
		}
		if err == nil {
			return nil
		}
		c.log.Error(err, "cannot delete the EndpointSlices that list activators")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cleanDelay):
		}
	}
}

func (c *cleaner) clean(ctx context.Context) (deleted int, err error) {
	list := &discoveryv1.EndpointSliceList{}
	if err := c.reader.List(ctx, list, client.MatchingLabels{discoveryv1.LabelManagedBy: activation.ManagedBy}); err != nil {
		return 0, fmt.Errorf("list the EndpointSlices of activators: %w", err)
	}
	var errs []error
	for i := range list.Items {
		slice := &list.Items[i]
		if err := client.IgnoreNotFound(c.writer.Delete(ctx, slice)); err != nil {
			errs = append(errs, fmt.Errorf("delete EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, err))
			continue
		}
		deleted++
	}
	return deleted, errors.Join(errs...)
}
