package runtimeimage

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/rouse-run/rouse/tools/release/compile"
)

// maxLinks is how many links may lead to an interpreter.
const maxLinks = 5

// checkMachine fails when the interpreter of a base is for another machine than the base says. Only that of this machine can run here.
func checkMachine(base v1.Image, described Description, platform v1.Platform) error {
	programs, err := programsOf(base, described)
	if err != nil {
		return fmt.Errorf("look into the base: %w", err)
	}
	for _, place := range described.Interpreter {
		header, found := programs.follow(place)
		if !found {
			continue
		}
		machine, err := compile.Machine(header)
		if err != nil {
			return fmt.Errorf("look at %s of the base: %w", place, err)
		}
		if want := platform.OS + "/" + platform.Architecture; machine != want {
			return fmt.Errorf("%s of the base is for %s and not for %s", place, machine, want)
		}
		return nil
	}
	return fmt.Errorf("the base has none of %v", described.Interpreter)
}

// programs are the beginnings of files and the targets of links in the folders of interpreters.
type programs struct {
	headers map[string][]byte
	links   map[string]string
}

func programsOf(base v1.Image, described Description) (programs, error) {
	found := programs{headers: map[string][]byte{}, links: map[string]string{}}
	folders := map[string]bool{}
	for _, place := range described.Interpreter {
		folders[path.Dir(place)] = true
	}
	files := mutate.Extract(base)
	defer func() { _ = files.Close() }()
	for archive := tar.NewReader(files); ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		name := strings.TrimPrefix(path.Clean(entry.Name), "/")
		switch {
		case !folders[path.Dir(name)]:
		case entry.Typeflag == tar.TypeSymlink:
			found.links[name] = strings.TrimPrefix(path.Join("/", path.Dir(name), entry.Linkname), "/")
			if path.IsAbs(entry.Linkname) {
				found.links[name] = strings.TrimPrefix(path.Clean(entry.Linkname), "/")
			}
		case entry.Typeflag == tar.TypeReg:
			header := make([]byte, compile.HeaderSize)
			if n, err := io.ReadFull(archive, header); err == nil {
				found.headers[name] = header[:n]
			}
		}
	}
}

func (p programs) follow(place string) ([]byte, bool) {
	for range maxLinks {
		if header, ok := p.headers[place]; ok {
			return header, true
		}
		next, ok := p.links[place]
		if !ok {
			return nil, false
		}
		place = next
	}
	return nil, false
}
