package rouse

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
	"github.com/rouse-run/rouse/tools/pack"
)

// Source is the checkout from which Rouse is built.
type Source struct {
	Repository string
	Store      image.Store
	Logs       string // directory
}

// FIPSModule makes Go build binaries with the validated version of its FIPS 140-3 module.
const FIPSModule = "GOFIPS140=v1.0.0"

// kept is the number of cached layers of earlier states of the checkout.
const kept = 3

// commands are the binaries that run in a cluster, without the command line.
func commands() []string {
	return []string{"./cmd/builder", "./cmd/controller", "./cmd/dashboard", "./cmd/eventbridge", "./cmd/gateway", "./cmd/operator", "./cmd/registryproxy", "./cmd/scaler"}
}

// Binaries makes the image with all Go binaries of a cluster, as the Dockerfile does.
func (s Source) Binaries(ctx context.Context) (image.Image, error) {
	out, remove, err := s.Store.Cache.Temporary("binaries")
	if err != nil {
		return image.Image{}, err
	}
	defer remove()
	compile := command.Command{
		Name: "go", Dir: s.Repository, Log: filepath.Join(s.Logs, "build-rouse.log"), Env: []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", FIPSModule},
		// The version does not contain the commit: otherwise every commit would replace all pods.
		Args: append([]string{
			"build", "-trimpath", "-ldflags", "-s -w -X github.com/rouse-run/rouse/internal/daemon.version=local", "-o", out + "/",
		}, commands()...),
	}
	if _, err := compile.Run(ctx); err != nil {
		return image.Image{}, err
	}
	binaries, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil {
		return image.Image{}, err
	}
	key, err := state.KeyOfFiles(out, binaries...)
	if err != nil {
		return image.Image{}, err
	}
	var files []pack.File
	for _, binary := range binaries {
		files = append(files, pack.File{Path: "/" + filepath.Base(binary), Source: binary})
	}
	layer, err := s.Store.Layer("rouse", key, func(file string) error { return pack.Files(file, files) })
	if err != nil {
		return image.Image{}, err
	}
	return image.Image{Name: "rouse", Layers: []image.Layer{layer}, Config: v1.Config{User: "65532:65532"}}, s.Store.Cache.Prune("layers", "rouse", kept)
}

// SourceServer makes the image of the server for the e2e tests' sources and packages. It consists of Debian packages;
// the tests provide the configuration and the content.
func (s Source) SourceServer(ctx context.Context) (image.Image, error) {
	layer, err := s.Store.Debian(ctx, s.Logs, "sources", "trixie", strings.Join(sourcePackages(), ","),
		// SSH users log in as the user of the server. Tests create the host keys.
		`--customize-hook=echo git:x:1000:1000::/srv:/bin/sh >>"$1/etc/passwd"`, `--customize-hook=rm -f "$1"/etc/ssh/ssh_host_*`)
	return image.Image{Name: "source-server", Layers: []image.Layer{layer}}, err
}

// sourcePackages are the Debian packages of that server.
func sourcePackages() []string {
	return []string{"ca-certificates", "git", "openssh-server", "lighttpd", "lighttpd-mod-openssl"}
}

// fixtures returns the ConfigMap with the image for the e2e tests.
func fixtures(sourceServer string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: rouse-fixtures, namespace: kube-system}
data: {source-server: %q}
`, sourceServer)
}
