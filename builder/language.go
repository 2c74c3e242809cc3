package builder

import (
	"strings"

	"github.com/rouse-run/rouse/internal/build"
)

// language is what differs between Node.js and Python.
type language struct {
	python       bool
	handler      string // the file of inline source
	manifest     string // the file of dependencies
	packages     string // the directory of installed dependencies
	packageSetup string // the file of the package manager in the Secret of private packages
}

func languageOf(plan build.Plan) language {
	if strings.HasPrefix(plan.Runtime, "python") {
		return language{
			python: true, handler: "handler.py", manifest: "requirements.txt", packages: build.PythonPackages, packageSetup: "pip.conf",
		}
	}
	return language{handler: "handler.js", manifest: "package.json", packages: "node_modules", packageSetup: ".npmrc"}
}
