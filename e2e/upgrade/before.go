package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// untagged is the last commit before there was anything that people could install. It counts as the release before the first tag.
	untagged = "e25b0a4"
	// natsBefore is the last version of the minor before the one that the cluster runs: NATS is upgraded too.
	natsBefore = "v2.14.9"

	natsModule = "e2e/cluster/components/nats"
)

// checkout is the source of a release.
type checkout struct {
	dir, commit string
}

// checkOut writes the files of the release before into a folder.
func checkOut(ctx context.Context, wanted string) (checkout, error) {
	if wanted == "" {
		wanted = lastRelease(ctx)
	}
	commit, err := output(ctx, ".", "git", "rev-parse", "--verify", "--quiet", wanted+"^{commit}")
	if err != nil {
		return checkout{}, fmt.Errorf("this clone has no %s, which is upgraded from; fetch it with: git fetch --tags origin, and in a shallow clone --unshallow", wanted)
	}
	dir, err := os.MkdirTemp("", "rouse-before-")
	if err != nil {
		return checkout{}, fmt.Errorf("make a folder for %s: %w", wanted, err)
	}
	older := checkout{dir: dir, commit: wanted}
	if err := errors.Join(older.extract(ctx, commit), older.prepare(ctx)); err != nil {
		return checkout{}, errors.Join(err, os.RemoveAll(dir))
	}
	return older, nil
}

// lastRelease is the last tag before the commit that is checked out, which may have one itself.
func lastRelease(ctx context.Context) string {
	tag, err := output(ctx, ".", "git", "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
	if err != nil {
		return untagged
	}
	return tag
}

func (c checkout) extract(ctx context.Context, commit string) error {
	archive := exec.CommandContext(ctx, "git", "archive", "--format=tar", commit)
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", c.dir)
	var err error
	if unpack.Stdin, err = archive.StdoutPipe(); err != nil {
		return fmt.Errorf("read %s: %w", c.commit, err)
	}
	if err := unpack.Start(); err != nil {
		return fmt.Errorf("unpack %s: %w", c.commit, err)
	}
	if err := errors.Join(archive.Run(), unpack.Wait()); err != nil {
		return fmt.Errorf("unpack %s: %w", c.commit, err)
	}
	return nil
}

// prepare gives it an older NATS, and where it is from before the mode says that FIPS is off: the cluster builds with the module for
// it, which alone would switch it on.
func (c checkout) prepare(ctx context.Context) error {
	if _, err := output(ctx, filepath.Join(c.dir, natsModule), "go", "get", "github.com/nats-io/nats-server/v2@"+natsBefore); err != nil {
		return err
	}
	module, err := os.ReadFile(filepath.Join(c.dir, "go.mod"))
	if err != nil || bytes.Contains(module, []byte("fips140=")) {
		return err
	}
	_, err = output(ctx, c.dir, "go", "mod", "edit", "-godebug=fips140=off")
	return err
}

// output runs a program in a folder, and returns what it prints.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	command.Dir, command.Stderr = dir, &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}
