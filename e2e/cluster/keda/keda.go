package keda

import (
	"bytes"
	"embed"
	"encoding/base64"
	"os"
	"text/template"

	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

//go:embed manifests
var manifests embed.FS

// settings fill the manifests.
type settings struct {
	Operator, Adapter          image.Image
	CABundle, Certificate, Key string
}

// WriteKustomization writes a kustomization into the state directory, over a copy of KEDA's own manifests, and returns
// its directory.
func WriteKustomization(dir state.Dir, config string, operator, adapter image.Image) (string, error) {
	values := settings{Operator: operator, Adapter: adapter}
	for file, target := range map[string]*string{"ca.crt": &values.CABundle, "keda.crt": &values.Certificate, "keda.key": &values.Key} {
		content, err := os.ReadFile(dir.PKI(file))
		if err != nil {
			return "", err
		}
		*target = base64.StdEncoding.EncodeToString(content)
	}
	target := dir.Path("keda")
	if err := os.RemoveAll(target); err != nil {
		return "", err
	}
	if err := os.CopyFS(dir.Path("keda", "config"), os.DirFS(config)); err != nil {
		return "", err
	}
	for _, name := range []string{"kustomization.yaml", "certificates.yaml"} {
		text, err := render(name, values)
		if err != nil {
			return "", err
		}
		if err := state.Write(dir.Path("keda", name), text); err != nil {
			return "", err
		}
	}
	return target, nil
}

func render(name string, values settings) (string, error) {
	parsed, err := template.ParseFS(manifests, "manifests/"+name)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = parsed.Execute(&text, values)
	return text.String(), err
}
