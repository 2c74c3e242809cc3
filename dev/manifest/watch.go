package manifest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long nothing must change before changed is called: editors write a file in several steps.
	quiet = 100 * time.Millisecond
	// maxDelay is the longest that changed waits when changes do not end.
	maxDelay = time.Second
	// comeback is how often it is checked whether a folder that vanished is back.
	comeback = 500 * time.Millisecond
)

// Watch calls changed after files below the folder have changed and then stayed as they are for a moment. It follows
// new folders, and a folder that vanishes until it is there again. It returns when the context ends.
func Watch(ctx context.Context, dir string, changed func()) error {
	w, err := newWatch(dir, changed)
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	return w.run(ctx)
}

// newWatch follows the folder; what changes from here on is reported once run is called.
func newWatch(dir string, changed func()) (*watch, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &watch{watcher: watcher, dir: filepath.Clean(dir), changed: changed}
	if err := w.follow(w.dir); err != nil {
		return nil, errors.Join(err, watcher.Close())
	}
	return w, nil
}

type watch struct {
	watcher *fsnotify.Watcher
	dir     string
	changed func()
	// since is when the changes began that were not reported yet; zero if there are none.
	since time.Time
	gone  bool
}

func (w *watch) run(ctx context.Context) error {
	defer func() { _ = w.watcher.Close() }()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-w.watcher.Events:
			if !open {
				return errors.New("watch: the watcher has closed")
			}
			if w.handle(event) {
				timer.Reset(w.wait())
			}
		case _, open := <-w.watcher.Errors:
			if !open {
				return errors.New("watch: the watcher has closed")
			}
			timer.Reset(w.wait()) // events may be lost, so everything may have changed
		case <-timer.C:
			w.fire(timer)
		}
	}
}

// handle reports whether the event is a change, and follows what is new.
func (w *watch) handle(event fsnotify.Event) bool {
	if event.Name == w.dir && event.Has(fsnotify.Remove|fsnotify.Rename) {
		w.gone = true
		return true
	}
	name := filepath.Base(event.Name)
	if event.Op == fsnotify.Chmod || ignored(name) || strings.HasSuffix(name, "~") {
		return false
	}
	if event.Has(fsnotify.Create) {
		_ = w.follow(event.Name) // gone again already, or a file
	}
	return true
}

// wait is how long to wait for further changes.
func (w *watch) wait() time.Duration {
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return max(0, min(quiet, maxDelay-time.Since(w.since)))
}

// fire reports the changes. A folder that vanished is reported once, and once more when it is back.
func (w *watch) fire(timer *time.Timer) {
	if w.gone {
		_ = w.watcher.Remove(w.dir)
		if err := w.follow(w.dir); err != nil {
			timer.Reset(comeback)
			if w.since.IsZero() {
				return
			}
		} else {
			w.gone = false
		}
	}
	w.since = time.Time{}
	w.changed()
}

// follow watches a folder and all below it. What is no folder is not followed.
func (w *watch) follow(path string) error {
	return filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			if path == w.dir {
				return err
			}
			return fs.SkipDir
		case !entry.IsDir():
			return nil
		case path != w.dir && ignored(entry.Name()):
			return fs.SkipDir
		default:
			return w.watcher.Add(path)
		}
	})
}
