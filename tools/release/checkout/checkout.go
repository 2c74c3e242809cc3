package checkout

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/tools/release/program"
)

// Checkout is a clone.
type Checkout struct{ Dir string }

// Commit is what is released.
type Commit struct {
	ID   string
	Time time.Time
}

// Head returns the commit that is checked out. Files that differ from it are an error, and so is a tag of the version that names
// another commit.
func (c Checkout) Head(ctx context.Context, version string) (Commit, error) {
	changed, err := c.git(ctx, "status", "--porcelain")
	if err != nil {
		return Commit{}, err
	}
	if changed != "" {
		files := strings.Split(changed, "\n")
		return Commit{}, fmt.Errorf("%d files are not committed (%s): commit them or put them away, a release is made of one commit", len(files), strings.TrimSpace(files[0]))
	}
	head, err := c.git(ctx, "log", "-1", "--format=%H %ct")
	if err != nil {
		return Commit{}, err
	}
	id, seconds, _ := strings.Cut(head, " ")
	when, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return Commit{}, fmt.Errorf("read the commit's time: %w", err)
	}
	tagged, err := c.git(ctx, "tag", "--list", "--format=%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)", version)
	if err != nil {
		return Commit{}, err
	}
	if tagged != "" && tagged != id {
		return Commit{}, fmt.Errorf("the tag %s is there and names commit %.12s, not %.12s: check that one out, or choose the next version", version, tagged, id)
	}
	return Commit{ID: id, Time: time.Unix(when, 0).UTC()}, nil
}

// Export writes the files of a commit into a directory.
func (c Checkout) Export(ctx context.Context, commit Commit, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archive := filepath.Join(dir, ".source.tar")
	if _, err := c.git(ctx, "archive", "--format=tar", "--output="+archive, commit.ID); err != nil {
		return err
	}
	if _, err := (program.Program{Dir: dir}).Run(ctx, "tar", "-xf", archive); err != nil {
		return err
	}
	return os.Remove(archive)
}

func (c Checkout) git(ctx context.Context, args ...string) (string, error) {
	out, err := program.Program{Dir: c.Dir}.Run(ctx, "git", args...)
	return strings.TrimSpace(out), err
}
