package release

import (
	"context"

	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/tools/pack"
)

// authorities tells an interpreter that was built for no system where Debian has its certificates.
const authorities = "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"

// pythonLayer puts an interpreter with its library and pip where the official images have them, and returns its program on this machine.
func (s Source) pythonLayer(ctx context.Context, runtime Runtime) (image.Layer, string, error) {
	builder := component.Builder{Repository: s.Repository, Cache: s.Store.Cache, Logs: s.Logs}
	built, err := builder.Build(ctx, component.Component{Name: "python" + runtime.Python.Minor, CPython: runtime.Python})
	if err != nil {
		return image.Layer{}, "", err
	}
	layer, err := s.Store.Layer(built.Name, built.Key, func(file string) error {
		files, err := pack.Tree(built.Dir)
		if err != nil {
			return err
		}
		for i := range files {
			files[i].Path = component.Prefix + files[i].Path
		}
		return pack.Files(file, files)
	})
	return layer, built.Path("bin", built.Name), err
}
