package addon

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"text/template"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/state"
	"github.com/rouse-run/rouse/tools/pack"
)

//go:embed manifests
var manifests embed.FS

//go:embed policies.yaml
var policiesRights string

//go:embed nats.yaml
var natsManifest string

// volumes is how many volumes claims can be bound to before the cluster has to be made again.
const volumes = 20

// PoliciesRights are what enforces NetworkPolicies may read.
func PoliciesRights() string { return policiesRights }

// Binary makes an image of one static binary, as they all are here.
func Binary(store image.Store, built component.Built, args ...string) (image.Image, error) {
	layer, err := store.Layer(built.Name, built.Key, func(file string) error {
		return pack.Files(file, []pack.File{{Path: "/" + built.Name, Source: built.Path(built.Name)}})
	})
	return image.Image{
		Name: built.Name, Layers: []image.Layer{layer},
		Config: v1.Config{Entrypoint: []string{"/" + built.Name}, Cmd: args},
	}, err
}

// volume is a directory that a claim may get.
type volume struct{ Name, Path string }

// settings fill the manifests.
type settings struct {
	CoreDNS, Registry    string
	DNS, RegistryAddress string
	RegistryData         string
	RegistryCertificate  string
	RegistryKey          string
	Nameservers          []string
	Volumes              []volume
}

// RegistryData is where the cluster's registry keeps its images.
func RegistryData(dir state.Dir) string { return dir.Path("registry") }

// Manifests renders all addons as one YAML text and makes the directories of the volumes.
func Manifests(dir state.Dir, coredns, registry image.Image) (string, error) {
	values := settings{
		CoreDNS: coredns.Reference(), Registry: registry.Reference(),
		DNS: network.DNS, RegistryAddress: network.Registry, Nameservers: network.Nameservers(),
		RegistryData: RegistryData(dir), RegistryCertificate: dir.PKI("registry.crt"), RegistryKey: dir.PKI("registry.key"),
	}
	for n := range volumes {
		name := fmt.Sprintf("local-%02d", n)
		values.Volumes = append(values.Volumes, volume{Name: name, Path: dir.Path("volumes", name)})
	}
	for _, v := range values.Volumes {
		if err := os.MkdirAll(v.Path, 0o755); err != nil {
			return "", err
		}
		// Pods that are not root write here, each with a user of its own.
		if err := os.Chmod(v.Path, 0o777); err != nil {
			return "", err
		}
	}
	return render(values)
}

func render(values settings) (string, error) {
	parsed, err := template.ParseFS(manifests, "manifests/*.yaml")
	if err != nil {
		return "", err
	}
	var all bytes.Buffer
	for _, part := range parsed.Templates() {
		if err := part.Execute(&all, values); err != nil {
			return "", err
		}
		all.WriteString("---\n")
	}
	return all.String(), nil
}

// NATSCluster renders a NATS of several servers, as the chart itself does not bring one.
func NATSCluster(nats image.Image, servers int) (string, error) {
	values := struct {
		Image   string
		Servers []string
	}{Image: nats.Reference()}
	for n := range servers {
		values.Servers = append(values.Servers, fmt.Sprintf("nats-%d", n))
	}
	parsed, err := template.New("nats").Parse(natsManifest)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = parsed.Execute(&text, values)
	return text.String(), err
}
