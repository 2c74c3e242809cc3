package nodejs

import (
	_ "embed"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

//go:embed ejected.Dockerfile
var ejectedImage string

const ejectedRun = `sh runtime/layer.sh build
rm -rf build/usr/src/app/function
cp -R source build/usr/src/app/function
cd build/usr/src/app/function
if [ -f package-lock.json ]; then npm ci --omit=dev; elif [ -f package.json ]; then npm install --omit=dev; fi
exec node --disable-warning=MODULE_TYPELESS_PACKAGE_JSON --disable-warning=ExperimentalWarning ../server.js
`

func ejected() language.Ejected {
	return language.Ejected{
		Server: "runtime", Dockerfile: ejectedImage, Run: ejectedRun,
		Base: func(runtime string) string { return strings.TrimPrefix(runtime, "nodejs") },
	}
}
