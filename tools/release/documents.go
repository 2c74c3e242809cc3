package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/tools/release/plan"
	"github.com/rouse-run/rouse/tools/release/provenance"
)

// documents are written last, since they are about all other parts: the digests of images, how all was made, and the checksums, which
// are what is signed.
func (m *maker) documents() error {
	if err := m.document(plan.ImageList, m.imageList()); err != nil {
		return err
	}
	subjects, err := m.subjects()
	if err != nil {
		return err
	}
	bases := map[string]string{}
	for _, base := range m.bases {
		bases[base.Name] = base.Digest.Hex
	}
	if err := provenance.Write(filepath.Join(m.out, plan.Provenance), m.release, bases, subjects); err != nil {
		return err
	}
	files, err := m.files()
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, each := range files {
		fmt.Fprintf(&sums, "%s  %s\n", each.SHA256, each.Name)
	}
	return m.document(plan.Checksums, sums.String())
}

// imageList names each image with its digest, and the chart.
func (m *maker) imageList() string {
	var lines strings.Builder
	for _, each := range m.artifacts {
		digest, err := each.Content.Digest()
		if err != nil {
			continue
		}
		fmt.Fprintf(&lines, "%s:%s@%s\n", each.Repository, each.Tag, digest)
	}
	return lines.String()
}

// subjects are the files so far, and the images.
func (m *maker) subjects() ([]provenance.Subject, error) {
	files, err := m.files()
	for _, name := range slices.Sorted(maps.Keys(m.digests)) {
		files = append(files, provenance.Subject{Name: m.release.Registry + "/" + name, SHA256: strings.TrimPrefix(m.digests[name], "sha256:")})
	}
	return files, err
}

func (m *maker) files() ([]provenance.Subject, error) {
	entries, err := os.ReadDir(m.out)
	if err != nil {
		return nil, err
	}
	var found []provenance.Subject
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		sum, err := sumFile(filepath.Join(m.out, entry.Name()))
		if err != nil {
			return nil, err
		}
		found = append(found, provenance.Subject{Name: entry.Name(), SHA256: sum})
	}
	return found, nil
}

func sumFile(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
