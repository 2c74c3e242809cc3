package target

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// logAll is Log for all Functions of a namespace, or of all for "".
func (l *local) logAll(ctx context.Context, namespace string, o LogOptions, handle func(Line)) error {
	functions, err := l.Functions(ctx, namespace)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var past []Line
	take := func(line Line) {
		mu.Lock()
		defer mu.Unlock()
		if o.Follow {
			handle(line)
			return
		}
		past = append(past, line)
	}
	readers, ctx := errgroup.WithContext(ctx)
	for _, f := range functions {
		readers.Go(func() error { return l.Log(ctx, f.Namespace, f.Name, o, take) })
	}
	if err := readers.Wait(); err != nil {
		return err
	}
	slices.SortStableFunc(past, func(a, b Line) int { return a.Time.Compare(b.Time) })
	for _, line := range past {
		handle(line)
	}
	return nil
}
