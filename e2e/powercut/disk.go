package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const diskSize = 2 << 30 // mostly holes

// disk is a filesystem in a file.
type disk struct{ file, mounted string }

func newDisk(ctx context.Context, dir, name string) (*disk, error) {
	d := &disk{file: filepath.Join(dir, name+".img"), mounted: filepath.Join(dir, name)}
	file, err := os.Create(d.file)
	if err != nil {
		return nil, fmt.Errorf("make a disk: %w", err)
	}
	if err := errors.Join(file.Truncate(diskSize), file.Close()); err != nil {
		return nil, fmt.Errorf("make a disk: %w", err)
	}
	if err := command(ctx, "mkfs.ext4", "-q", "-F", d.file); err != nil {
		return nil, err
	}
	return d, d.mount(ctx)
}

// mount lets the kernel write of its own accord as late as it can.
func (d *disk) mount(ctx context.Context) error {
	if err := os.MkdirAll(d.mounted, 0o700); err != nil {
		return fmt.Errorf("mount a disk: %w", err)
	}
	return command(ctx, "mount", "-o", "loop,commit=600", d.file, d.mounted)
}

// afterPowerCut is a disk with what this one really has.
func (d *disk) afterPowerCut(ctx context.Context) (*disk, error) {
	left := &disk{file: d.file + ".left", mounted: d.mounted + "-left"}
	if err := command(ctx, "cp", "--sparse=always", d.file, left.file); err != nil {
		return nil, err
	}
	return left, left.mount(ctx)
}

func (d *disk) remove() error {
	return errors.Join(command(context.Background(), "umount", d.mounted), os.Remove(d.file))
}

func command(ctx context.Context, name string, args ...string) error {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(output)))
	}
	return nil
}
