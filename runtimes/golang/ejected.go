package golang

import (
	_ "embed"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

//go:embed ejected.Dockerfile
var ejectedImage string

const ejectedRun = `(cd main && CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=mod go build -trimpath -o ../build/server .)
exec build/server
`

func ejected() language.Ejected {
	return language.Ejected{
		Server: "runtime/runtimes/golang", Dockerfile: ejectedImage, Run: ejectedRun,
		Files: map[string]string{"runtime/go.mod": "module " + ownModule + "\n\ngo " + goVersion + "\n"},
		Base:  func(runtime string) string { return "1." + strings.TrimPrefix(runtime, "go1") },
	}
}
