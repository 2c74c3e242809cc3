package image

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/rouse-run/rouse/e2e/cluster/command"
)

// Containerd is the containerd that images are loaded into.
type Containerd struct {
	Socket string
	Log    string
}

// Load gives containerd the images that it does not have, and returns how many those were. Layers that several images
// share are sent once.
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
	// Unblocks the writer when ctr stopped reading early.
	_ = reader.CloseWithError(io.ErrClosedPipe)
	if writeErr := <-written; err == nil {
		err = writeErr
	}
	return err
}

// Keep takes all images but these away, and waits until their files are gone.
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

// unwanted are the names in ctr's table that lead to none of the images. The kubelet's names for images are their hashes,
// which are wanted where they lead to the same as a wanted name.
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

// Ready fails until containerd answers.
func (c Containerd) Ready(ctx context.Context) error {
	quiet := c
	quiet.Log = ""
	_, err := quiet.ctr("version").Run(ctx)
	return err
}

func (c Containerd) ctr(args ...string) command.Command {
	return command.Command{Name: "ctr", Args: append([]string{"--address", c.Socket, "--namespace", "k8s.io"}, args...), Log: c.Log}
}
