package builder

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"path"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/rouse-run/rouse/runtimes/language"
)

const (
	bareUser    = "1000:1000"
	barePort    = "8080/tcp"
	bareRoots   = "etc/ssl/certs/ca-certificates.crt"
	bareUsers   = "root:x:0:0::/:/none\nfunction:x:1000:1000::/tmp:/none\n"
	bareGroups  = "root:x:0:\nfunction:x:1000:\n"
	modeFile    = 0o644
	modeDir     = 0o755
	modeForAny  = 0o1777
	bareCreated = "rouse builder"
)

// bareBase is the image below a binary: the certificates of public authorities, a directory for temporary files, and the name
// of the user. It is made here, so that no registry has a say in what it is.
func bareBase(l *language.Language) (v1.Image, error) {
	content, err := bareFiles()
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: static.NewLayer(content, types.OCIUncompressedLayer), MediaType: types.OCIUncompressedLayer,
		History: v1.History{Created: v1.Time{Time: time.Unix(0, 0).UTC()}, CreatedBy: bareCreated},
	})
	if err != nil {
		return nil, fmt.Errorf("make the base: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("make the base: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", runtime.GOARCH, v1.Time{Time: time.Unix(0, 0).UTC()}
	file.Config = v1.Config{
		Entrypoint: []string{path.Join(l.FunctionDir, l.Compiled.Binary)}, WorkingDir: l.FunctionDir, User: bareUser,
		Env: []string{"HOME=/tmp"}, ExposedPorts: map[string]struct{}{barePort: {}},
	}
	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		return nil, fmt.Errorf("make the base: %w", err)
	}
	return image, nil
}

func bareFiles() ([]byte, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, fmt.Errorf("write the certificates: %w", err)
		}
	}
	var content bytes.Buffer
	archive := tar.NewWriter(&content)
	for _, each := range []struct {
		name, text string
		mode       int64
	}{
		{"etc/", "", modeDir},
		{"etc/group", bareGroups, modeFile},
		{"etc/passwd", bareUsers, modeFile},
		{"etc/ssl/", "", modeDir},
		{"etc/ssl/certs/", "", modeDir},
		{bareRoots, roots.String(), modeFile},
		{"tmp/", "", modeForAny},
	} {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: each.name, Mode: each.mode, Size: int64(len(each.text)), ModTime: time.Unix(0, 0)}
		if each.text == "" {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("write the base: %w", err)
		}
		if _, err := archive.Write([]byte(each.text)); err != nil {
			return nil, fmt.Errorf("write the base: %w", err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("write the base: %w", err)
	}
	return content.Bytes(), nil
}
