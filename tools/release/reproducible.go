package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rouse-run/rouse/tools/release/plan"
	"github.com/rouse-run/rouse/tools/release/program"
)

// same compares two releases by their checksums, which cover all files and, by the list of them, all images.
func same(one, two string) error {
	first, err := os.ReadFile(filepath.Join(one, plan.Checksums))
	if err != nil {
		return err
	}
	second, err := os.ReadFile(filepath.Join(two, plan.Checksums))
	if err != nil {
		return err
	}
	if different := difference(string(first), string(second)); len(different) > 0 {
		images, err := imagesThatDiffer(one, two)
		return errors.Join(fmt.Errorf("two builds of the same commit differ, so nobody could check this release: %s%s", strings.Join(different, ", "), images), err)
	}
	return nil
}

func imagesThatDiffer(one, two string) (string, error) {
	first, err := os.ReadFile(filepath.Join(one, plan.ImageList))
	if err != nil {
		return "", err
	}
	second, err := os.ReadFile(filepath.Join(two, plan.ImageList))
	if err != nil {
		return "", err
	}
	different := difference(string(first), string(second))
	if len(different) == 0 {
		return "", nil
	}
	return "; of the images: " + strings.Join(different, ", "), nil
}

// difference lists the lines of one text, each without what is before its last space, that the other one does not have.
func difference(one, two string) []string {
	known := map[string]bool{}
	for line := range strings.Lines(two) {
		known[line] = true
	}
	var different []string
	for line := range strings.Lines(one) {
		if !known[line] {
			fields := strings.Fields(line)
			different = append(different, fields[len(fields)-1])
		}
	}
	return different
}

// move renames, or copies where that cannot be: the temporary directory may be of another file system.
func move(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	_, err := program.Program{}.Run(context.Background(), "mv", "-T", from, to)
	return err
}
