package registryproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	// mostBlobs is after how many unused ones a part of a sweep ends, and as many times of it are found in one folder at most.
	mostBlobs = 10_000
	times     = 5
	// mostTags bounds the tags of a repository whose manifests without a tag are removed. The collector of images thins out the others.
	mostTags = 50_000
	// maxStoredManifest is what the registry takes.
	maxStoredManifest = 4 << 20
	prefixes          = 256 // of blobs: their first two digits
	page              = 1000
)

// sweep is a pass over all manifests for a part of the blobs.
type sweep struct {
	store *Store
	ctx   context.Context //nolint:containedctx // of this one call
	now   time.Time
	// blobs are removed unless a manifest refers to them.
	blobs map[string]struct{}
	// repositories are the repositories in the store.
	repositories []string
}

// Sweep removes blobs and manifests that no image refers to.
func (s *Store) Sweep(ctx context.Context) error {
	for from := 0; from < prefixes; {
		w := &sweep{store: s, ctx: ctx, now: time.Now(), blobs: map[string]struct{}{}}
		var err error
		if from, err = w.findBlobs(from); err != nil {
			return err
		}
		if err := w.run(); err != nil {
			return err
		}
	}
	return nil
}

func (w *sweep) run() error {
	if len(w.blobs) == 0 {
		return nil
	}
	if err := w.findRepositories(filepath.Join(w.store.root, "repositories")); err != nil {
		return err
	}
	for _, repository := range w.repositories {
		if err := w.keepManifests(repository); err != nil {
			return err
		}
	}
	blobs, bytes, err := w.removeBlobs()
	if blobs == 0 {
		return err
	}
	w.store.metrics.blobs.Add(float64(blobs))
	w.store.metrics.bytes.Add(float64(bytes))
	for _, repository := range w.repositories {
		err = errors.Join(err, w.removeLinks(filepath.Join(repository, "_layers")))
	}
	w.store.log.Info("swept the registry", "blobs", blobs, "bytes", bytes, "seconds", time.Since(w.now).Seconds())
	return err
}

// findBlobs finds what nobody has named for long, from the blobs with these first two digits to as many as a sweep may have. It returns
// where the next one begins.
func (w *sweep) findBlobs(from int) (next int, err error) {
	for next = from; next < prefixes && len(w.blobs) < w.store.most; next++ {
		for _, algorithm := range []string{"sha256", "sha512"} {
			folder := filepath.Join(w.store.root, "blobs", algorithm, fmt.Sprintf("%02x", next))
			err := w.each(folder, func(path, name string) error {
				_, unused, err := w.store.unused(filepath.Join(path, "data"), w.now)
				if unused && len(w.blobs) < times*w.store.most {
					w.blobs[algorithm+":"+name] = struct{}{}
				}
				return ignoreMissing(err)
			})
			if err != nil {
				return next, err
			}
		}
	}
	return next, nil
}

// findRepositories finds the repositories below a path. Repositories may be nested.
func (w *sweep) findRepositories(path string) error {
	return w.each(path, func(child, name string) error {
		switch {
		case name == "_manifests":
			w.repositories = append(w.repositories, path)
			return nil
		case strings.HasPrefix(name, "_"):
			return nil
		}
		return w.findRepositories(child)
	})
}

// keepManifests keeps the blobs that the manifests of a repository refer to. It removes untagged manifests that no other refers to.
func (w *sweep) keepManifests(repository string) error {
	untagged, err := w.untagged(repository)
	if err != nil {
		return err
	}
	err = w.revisions(repository, func(digest, _ string) error {
		if _, ok := untagged[digest]; ok {
			return nil
		}
		return w.keep(digest, untagged)
	})
	if err != nil {
		return err
	}
	for digest, path := range untagged {
		removed, err := w.removeManifest(digest, path)
		if err == nil && !removed { // a request has just named it
			delete(untagged, digest)
			err = w.keep(digest, nil)
		}
		if err != nil {
			return err
		}
	}
	if len(untagged) == 0 {
		return nil
	}
	return w.forget(repository, untagged)
}

// untagged returns the old manifests without a current tag, with their folders.
func (w *sweep) untagged(repository string) (map[string]string, error) {
	tagged, err := w.tagged(repository)
	if err != nil || tagged == nil {
		return nil, err
	}
	untagged := map[string]string{}
	err = w.revisions(repository, func(digest, path string) error {
		if _, ok := tagged[digest]; !ok && len(untagged) < mostTags && w.isOld(digest, path) {
			untagged[digest] = path
		}
		return nil
	})
	return untagged, err
}

// forget removes manifests from the history of tags.
func (w *sweep) forget(repository string, manifests map[string]string) error {
	return w.each(filepath.Join(repository, "_manifests", "tags"), func(tag, _ string) error {
		return w.each(filepath.Join(tag, "index"), func(path, algorithm string) error {
			return w.each(path, func(path, hex string) error {
				if _, ok := manifests[algorithm+":"+hex]; !ok {
					return nil
				}
				return os.RemoveAll(path)
			})
		})
	})
}

// revisions visits the manifests of a repository.
func (w *sweep) revisions(repository string, visit func(digest, path string) error) error {
	return w.each(filepath.Join(repository, "_manifests", "revisions"), func(path, algorithm string) error {
		return w.each(path, func(path, hex string) error { return visit(algorithm+":"+hex, path) })
	})
}

// tagged returns the digests with a current tag, nil when there are too many.
func (w *sweep) tagged(repository string) (map[string]struct{}, error) {
	tagged := map[string]struct{}{}
	err := w.each(filepath.Join(repository, "_manifests", "tags"), func(path, _ string) error {
		if len(tagged) > mostTags {
			return nil
		}
		digest, err := os.ReadFile(filepath.Join(path, "current", "link")) //nolint:gosec // of the registry
		tagged[strings.TrimSpace(string(digest))] = struct{}{}
		return ignoreMissing(err)
	})
	if len(tagged) > mostTags {
		return nil, err
	}
	return tagged, err
}

func (w *sweep) isOld(digest, path string) bool {
	_, link, err := w.store.unused(filepath.Join(path, "link"), w.now)
	_, blob, blobErr := w.store.unused(w.store.blob(digest), w.now)
	return err == nil && link && (blob || errors.Is(blobErr, fs.ErrNotExist))
}

var named = regexp.MustCompile(`sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})`)

// keep keeps a manifest and everything in it that looks like a digest, recursively.
func (w *sweep) keep(digest string, untagged map[string]string) error {
	for queue := []string{digest}; len(queue) > 0; queue = queue[1:] {
		delete(w.blobs, queue[0])
		text, err := w.read(queue[0])
		if err != nil {
			return fmt.Errorf("read the manifest %s: %w", queue[0], err)
		}
		for _, other := range named.FindAll(text, -1) {
			delete(w.blobs, string(other))
			if _, ok := untagged[string(other)]; ok {
				delete(untagged, string(other))
				queue = append(queue, string(other))
			}
		}
	}
	return nil
}

// read returns a manifest; nothing when it is missing, because no image can be pulled by it.
func (w *sweep) read(digest string) ([]byte, error) {
	file, err := os.Open(w.store.blob(digest))
	if err != nil {
		return nil, ignoreMissing(err)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxStoredManifest))
	return text, errors.Join(err, file.Close())
}

func (w *sweep) removeManifest(digest, path string) (removed bool, err error) {
	w.store.removing.Lock()
	defer w.store.removing.Unlock()
	if !w.isOld(digest, path) {
		return false, nil
	}
	return true, os.RemoveAll(path)
}

func (w *sweep) removeBlobs() (blobs int, bytes int64, err error) {
	for digest := range w.blobs {
		if w.ctx.Err() != nil {
			return blobs, bytes, w.ctx.Err()
		}
		size, removed, err := w.removeBlob(digest)
		if err != nil {
			return blobs, bytes, err
		}
		if removed {
			blobs++
			bytes += size
		}
	}
	return blobs, bytes, nil
}

func (w *sweep) removeBlob(digest string) (size int64, removed bool, err error) {
	w.store.removing.Lock()
	defer w.store.removing.Unlock()
	path := w.store.blob(digest)
	size, unused, err := w.store.unused(path, w.now)
	if err != nil || !unused {
		return 0, false, ignoreMissing(err)
	}
	return size, true, os.RemoveAll(filepath.Dir(path))
}

// removeLinks removes a repository's links to deleted blobs.
func (w *sweep) removeLinks(layers string) error {
	return w.each(layers, func(path, algorithm string) error {
		return w.each(path, func(path, hex string) error {
			_, err := os.Stat(w.store.blob(algorithm + ":" + hex))
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if _, old, err := w.store.unused(filepath.Join(path, "link"), w.now); err != nil || !old {
				return ignoreMissing(err) // it is being uploaded
			}
			return os.RemoveAll(path)
		})
	})
}

// each visits the entries of a folder in batches.
func (w *sweep) each(folder string, visit func(path, name string) error) error {
	opened, err := os.Open(folder) //nolint:gosec // of the registry
	if err != nil {
		return ignoreMissing(err)
	}
	defer func() { _ = opened.Close() }()
	for {
		entries, err := opened.ReadDir(page)
		for _, entry := range entries {
			if w.ctx.Err() != nil {
				return w.ctx.Err()
			}
			if err := visit(filepath.Join(folder, entry.Name()), entry.Name()); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("list %s: %w", folder, err)
		}
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
