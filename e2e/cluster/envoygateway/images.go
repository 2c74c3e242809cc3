package envoygateway

import (
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/tools/pack"
)

// Images are those of the controller and of the proxies that it starts.
type Images struct{ Gateway, Proxy image.Image }

// All is the list of them.
func (i Images) All() []image.Image { return []image.Image{i.Gateway, i.Proxy} }

// MakeImages puts the programs where the official images have them, since pods name them without a path. Envoy stands on a
// layer with a C library.
func MakeImages(store image.Store, glibc image.Layer, gateway, envoy component.Built) (Images, error) {
	controller, err := layer(store, gateway)
	if err != nil {
		return Images{}, err
	}
	proxy, err := layer(store, envoy)
	return Images{
		Gateway: image.Image{Name: gateway.Name, Layers: []image.Layer{controller}, Config: config(gateway)},
		Proxy:   image.Image{Name: envoy.Name, Layers: []image.Layer{glibc, proxy}, Config: config(envoy)},
	}, err
}

const programs = "/usr/local/bin"

func config(built component.Built) v1.Config {
	return v1.Config{Entrypoint: []string{path.Join(programs, built.Name)}, Env: []string{"PATH=" + programs + ":/usr/bin:/bin"}}
}

func layer(store image.Store, built component.Built) (image.Layer, error) {
	return store.Layer(built.Name, built.Key, func(file string) error {
		return pack.Files(file, []pack.File{
			{Path: path.Join(programs, built.Name), Source: built.Path(built.Name)},
			{Path: "/tmp", Mode: 0o1777}, // a proxy that ends says so by a file in it
		})
	})
}
