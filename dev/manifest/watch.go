package manifest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is the time without a change before changed is called: editors write a file in several steps.
	quiet = 100 * time.Millisecond
	// maxDelay bounds the delay of changed while changes go on.
	maxDelay = time.Second
	// comeback is the interval at which a folder that vanished is looked for.
	comeback = 500 * time.Millisecond
)

// Watch calls changed after changes of files below the folder, debounced. It follows new folders, and waits for a folder that vanished to
// reappear. It returns when the context ends.
func Watch(ctx context.Context, dir string, changed func()) error {
	run, err := BeginWatch(dir, changed)
	if err != nil {
		return err
	}
	return run(ctx)
}

// BeginWatch begins to watch the folder. The returned function is Watch for the changes since then, and has to be called.
func BeginWatch(dir string, changed func()) (run func(ctx context.Context) error, err error) {
	w, err := newWatch(dir, changed)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	return w.run, nil
}

// newWatch begins to watch the folder; run reports the changes from then on.
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
	// since is the time of the first unreported change; zero without one.
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
				return errors.New("watch the folder: the watcher was closed")
			}
			if w.handle(event) {
				timer.Reset(w.wait())
			}
		case _, open := <-w.watcher.Errors:
			if !open {
				return errors.New("watch the folder: the watcher was closed")
			}
			timer.Reset(w.wait()) // events may be lost, so anything may have changed
		case <-timer.C:
			w.fire(timer)
		}
	}
}

// handle reports whether the event is a change, and watches new folders.
func (w *watch) handle(event fsnotify.Event) bool {
	if event.Name == w.dir && event.Has(fsnotify.Remove|fsnotify.Rename) {
		w.gone = true
		return true
	}
	if event.Op == fsnotify.Chmod || !watched(filepath.Base(event.Name)) {
		return false
	}
	if event.Has(fsnotify.Create) {
		_ = w.follow(event.Name) // it is gone again, or a file
	}
	return true
}

// wait returns the time to wait for further changes.
func (w *watch) wait() time.Duration {
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return max(0, min(quiet, maxDelay-time.Since(w.since)))
}

// fire reports the changes. It reports a folder that vanished once, and again when it is back.
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

// follow watches a folder and all folders below it. It ignores files.
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
