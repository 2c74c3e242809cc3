package python

import (
	_ "embed"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

//go:embed ejected.Dockerfile
var ejectedImage string

const ejectedRun = `sh runtime/layer.sh build
if [ -f source/requirements.txt ]; then python3 -m pip install --target source/.local -r source/requirements.txt; fi
export FUNCTION_PATH="$PWD/source" PYTHONUNBUFFERED=TRUE
cd source
exec python3 -P -s ../build/usr/src/app/main.py
`

func ejected() language.Ejected {
	return language.Ejected{
		Server: "runtime", Dockerfile: ejectedImage, Run: ejectedRun,
		Base: func(runtime string) string { return "3." + strings.TrimPrefix(runtime, "python3") },
	}
}
