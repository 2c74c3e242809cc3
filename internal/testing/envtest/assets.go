package envtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrNoAssets means that kube-apiserver or etcd is missing.
var ErrNoAssets = errors.New(`run "make test" or set KUBEBUILDER_ASSETS`)

type assets struct {
	apiServer, etcd string
	remove          func() error
}

// findAssets returns the binaries in the directory that the environment names. It does not search elsewhere, so that a
// test never runs with another version by accident.
func findAssets() (assets, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		return assets{}, ErrNoAssets
	}
	found := assets{apiServer: filepath.Join(dir, "kube-apiserver"), etcd: filepath.Join(dir, "etcd")}
	for _, path := range []string{found.apiServer, found.etcd} {
		if _, err := exec.LookPath(path); err != nil {
			return assets{}, fmt.Errorf("%w: %w", ErrNoAssets, err)
		}
	}
	return found, nil
}

// guard wraps the binaries so that the kernel kills them when the test process ends: a test that panics or times out
// cannot stop them. Without setpriv, which is Linux only, the binaries are not wrapped.
func guard(bare assets) (assets, error) {
	bare.remove = func() error { return nil }
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return bare, nil //nolint:nilerr // a missing guard is no failure
	}
	dir, err := os.MkdirTemp("", "envtest-")
	if err != nil {
		return assets{}, fmt.Errorf("guard the control plane: %w", err)
	}
	guarded := assets{remove: func() error { return os.RemoveAll(dir) }}
	wrap := func(binary string) (string, error) {
		script := filepath.Join(dir, filepath.Base(binary))
		return script, Script(script, fmt.Sprintf("exec %q --pdeathsig KILL -- %q \"$@\"", setpriv, binary))
	}
	var apiServerErr, etcdErr error
	guarded.apiServer, apiServerErr = wrap(bare.apiServer)
	guarded.etcd, etcdErr = wrap(bare.etcd)
	if err := errors.Join(apiServerErr, etcdErr); err != nil {
		return assets{}, fmt.Errorf("guard the control plane: %w", err)
	}
	return guarded, nil
}

// crdPaths returns the paths of the CRDs: the chart's, and those in other modules.
func crdPaths(o options) ([]string, error) {
	rouse, err := moduleDir("github.com/rouse-run/rouse")
	if err != nil {
		return nil, err
	}
	paths := []string{filepath.Join(rouse, "charts", "rouse", "files", "crds")}
	if o.keda {
		module, err := moduleDir("github.com/kedacore/keda/v2")
		if err != nil {
			return nil, err
		}
		paths = append(paths, filepath.Join(module, "config", "crd", "bases", "keda.sh_scaledobjects.yaml"))
	}
	if o.gatewayAPI {
		module, err := moduleDir("sigs.k8s.io/gateway-api")
		if err != nil {
			return nil, err
		}
		for _, kind := range []string{"gateways", "httproutes", "referencegrants"} {
			paths = append(paths, filepath.Join(module, "config", "crd", "standard", "gateway.networking.k8s.io_"+kind+".yaml"))
		}
	}
	return paths, nil
}

func moduleDir(module string) (string, error) {
	out, err := exec.CommandContext(context.Background(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %q: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Write calls write, which writes an executable, while this process starts no child: a child could inherit the open
// file.
func Write(write func() error) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return write()
}

// Script writes a script for sh to the file at path.
func Script(path, commands string) error {
	return Write(func() error {
		return os.WriteFile(path, []byte("#!/bin/sh\n"+commands+"\n"), 0o700)
	})
}
