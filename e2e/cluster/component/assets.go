package component

import (
	"context"
	"os"
	"path/filepath"

	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Assets are the programs that integration tests start themselves.
func Assets() []Component {
	return []Component{Kubernetes(), Etcd(), NATS(), Registry(), Envoy(), Python312(), Python314()}
}

// LinkAssets puts links to kube-apiserver, kubectl, etcd, nats-server, registry, envoy, python3.12 and python3.14 into one directory of
// the cache and returns it.
func LinkAssets(ctx context.Context, builder Builder) (string, error) {
	links := map[string]string{}
	var keys []string
	for _, c := range Assets() {
		built, err := builder.Build(ctx, c)
		if err != nil {
			return "", err
		}
		keys = append(keys, built.Key)
		switch {
		case c.CPython != nil:
			links[c.Name] = built.Path("bin", c.Name)
		case c.Name == "kubernetes":
			links["kube-apiserver"], links["kubectl"] = built.Path("kube-apiserver"), built.Path("kubectl")
		default:
			links[c.Name] = built.Path(c.Name)
		}
	}
	dir, _, err := builder.Cache.Entry("assets", "bin", state.Key(keys...), func(temporary string) error {
		if err := os.MkdirAll(temporary, 0o755); err != nil {
			return err
		}
		for name, target := range links {
			if err := os.Symlink(target, filepath.Join(temporary, name)); err != nil {
				return err
			}
		}
		return nil
	})
	return dir, err
}
