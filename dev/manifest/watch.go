package manifest

import (
	"context"
	"fmt"

	"github.com/fsnotify/fsnotify"
)

// Watch calls changed after files below the folder have changed and then stayed as they are for a moment. It returns
// when the context ends.
func Watch(ctx context.Context, dir string, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	<-ctx.Done()
	changed()
	return watcher.Close()
}
