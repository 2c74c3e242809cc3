package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Template is containerd's directory as it is when a set of images has just been unpacked. It is kept in the cache as
// hard links, since an unpacked image is only ever read; the databases in it are copied.
//
// A cluster that starts from a template has its images within a second instead of half a minute.
type Template struct {
	Cache state.Cache
	Root  string // containerd's root directory
	Log   string
}

const templates = "containerd"

// errNoLinks means that the cache and the state directory are on different file systems.
var errNoLinks = errors.New("no hard links between the cache and the state directory")

// Key names the template of a set of images, as this version of containerd unpacks them.
func (t Template) Key(ctx context.Context, images []Image) (string, error) {
	version, err := command.Command{Name: "containerd", Args: []string{"--version"}}.Run(ctx)
	if err != nil {
		return "", err
	}
	references := make([]string, 0, len(images))
	for _, image := range images {
		references = append(references, image.Reference())
	}
	slices.Sort(references)
	return state.Key(version, strings.Join(references, " ")), nil
}

// Restored says what Restore found.
type Restored string

// What Restore may find.
const (
	Nothing Restored = "there is none yet"
	Similar Restored = "that of other images"
	Exact   Restored = "restored"
)

// Restore fills containerd's root directory from the template, or from that of another set of images, most of which
// are the same. containerd must not run.
func (t Template) Restore(ctx context.Context, key string) (Restored, error) {
	saved, found := t.Cache.Path(templates, "root-"+key), Exact
	if _, err := os.Stat(saved); err != nil {
		others, err := filepath.Glob(t.Cache.Path(templates, "root-*[0-9a-f]"))
		if err != nil || len(others) == 0 {
			return Nothing, err
		}
		saved, found = others[len(others)-1], Similar
	}
	if err := t.copy(ctx, saved, t.Root); err != nil {
		return Nothing, errors.Join(err, os.RemoveAll(t.Root))
	}
	return found, nil
}

// Save keeps containerd's root directory as the template. containerd must not run. Older templates are dropped.
func (t Template) Save(ctx context.Context, key string) error {
	_, _, err := t.Cache.Entry(templates, "root", key, func(temporary string) error {
		if err := t.copy(ctx, t.Root, temporary); err != nil {
			return err
		}
		now := time.Now() // the copy is as old as what it was restored from
		return os.Chtimes(temporary, now, now)
	})
	if errors.Is(err, errNoLinks) {
		return nil
	}
	return errors.Join(err, t.Cache.Prune(templates, "root", 1))
}

// copy links all files and then replaces the databases by copies.
func (t Template) copy(ctx context.Context, from, to string) error {
	if !sameFilesystem(filepath.Dir(from), filepath.Dir(to)) {
		return errNoLinks
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	link := command.Command{Name: "cp", Args: []string{"--archive", "--link", "--no-target-directory", from, to}, Log: t.Log}
	if _, err := link.Run(ctx); err != nil {
		return err
	}
	databases, err := filepath.Glob(filepath.Join(from, "*", "*.db"))
	if err != nil {
		return err
	}
	for _, database := range databases {
		name, err := filepath.Rel(from, database)
		if err != nil {
			return err
		}
		copied := command.Command{
			Name: "cp", Args: []string{"--archive", "--remove-destination", database, filepath.Join(to, name)}, Log: t.Log,
		}
		if _, err := copied.Run(ctx); err != nil {
			return err
		}
	}
	return nil
}

func sameFilesystem(one, two string) bool {
	return device(one) == device(two)
}

// device is that of the nearest directory that exists.
func device(dir string) uint64 {
	for {
		var stat syscall.Stat_t
		if err := syscall.Stat(dir, &stat); err == nil {
			return stat.Dev
		}
		if dir == "/" || dir == "." {
			return 0
		}
		dir = filepath.Dir(dir)
	}
}
