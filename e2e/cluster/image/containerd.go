package image

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Containerd is the containerd into which images are loaded.
type Containerd struct {
	Socket string
	Log    string
}

// Load loads missing images into containerd, and returns their number. Layers that several images share are sent once.
func (c Containerd) Load(ctx context.Context, images ...Image) (int, error) {
	present, err := c.ctr("images", "list", "-q").Run(ctx)
	if err != nil {
		return 0, err
	}
	known := map[string]bool{}
	for reference := range strings.FieldsSeq(present) {
		known[reference] = true
	}
	missing := map[name.Reference]v1.Image{}
	for _, image := range images {
		if known[image.Reference()] {
			continue
		}
		known[image.Reference()] = true
		reference, built, err := image.build()
		if err != nil {
			return 0, err
		}
		missing[reference] = built
	}
	if len(missing) == 0 {
		return 0, nil
	}
	return len(missing), c.send(ctx, missing)
}

func (c Containerd) send(ctx context.Context, images map[name.Reference]v1.Image) error {
	reader, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := tarball.MultiRefWrite(images, writer)
		written <- errors.Join(err, writer.CloseWithError(err))
	}()
	load := c.ctr("images", "import", "-")
	load.Stdin = reader
	_, err := load.Run(ctx)
	// Unblocks the writer when ctr stops reading early.
	_ = reader.CloseWithError(io.ErrClosedPipe)
	if writeErr := <-written; err == nil {
		err = writeErr
	}
	return err
}

// Keep removes all images except these, and waits until their files are deleted.
func (c Containerd) Keep(ctx context.Context, images ...Image) error {
	listed, err := c.ctr("images", "list").Run(ctx)
	if err != nil {
		return err
	}
	unwanted := unwanted(listed, images)
	if len(unwanted) == 0 {
		return nil
	}
	_, err = c.ctr(append([]string{"images", "remove", "--sync"}, unwanted...)...).Run(ctx)
	return err
}

// unwanted returns the names in ctr's table that refer to none of the images. The kubelet names images by their hashes,
// which are kept if they refer to a wanted image.
func unwanted(table string, images []Image) []string {
	wanted := map[string]bool{}
	for _, image := range images {
		wanted[image.Reference()] = true
	}
	targets := map[string]string{}
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] != "REF" {
			targets[fields[0]] = fields[2]
		}
	}
	kept := map[string]bool{}
	for name, target := range targets {
		if wanted[name] {
			kept[target] = true
		}
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		if !kept[targets[name]] {
			found = append(found, name)
		}
	}
	return found
}

// Ready returns an error until containerd responds.
func (c Containerd) Ready(ctx context.Context) error {
	quiet := c
	quiet.Log = ""
	_, err := quiet.ctr("version").Run(ctx)
	return err
}

func (c Containerd) ctr(args ...string) command.Command {
	return command.Command{Name: "ctr", Args: append([]string{"--address", c.Socket, "--namespace", "k8s.io"}, args...), Log: c.Log}
}

// Template is the content of containerd's directory right after a set of images was unpacked. It is cached as hard
// links, since unpacked images are only read; its databases are copied.
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

// Key returns the name of the template of a set of images for this version of containerd.
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

// Restored is the result of Restore.
type Restored string

// The results of Restore.
const (
	Nothing Restored = "there is none yet"
	Similar Restored = "that of other images"
	Exact   Restored = "restored"
)

// Restore fills containerd's root directory from the template, or from that of another set of images, most of which are
// equal. containerd must not run.
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

// Save stores containerd's root directory as the template and deletes older ones. containerd must not run.
func (t Template) Save(ctx context.Context, key string) error {
	_, _, err := t.Cache.Entry(templates, "root", key, func(temporary string) error {
		if err := t.copy(ctx, t.Root, temporary); err != nil {
			return err
		}
		now := time.Now() // the copy would have the age of its source
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

// device returns the device of the nearest existing directory.
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
