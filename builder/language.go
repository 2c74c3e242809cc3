package builder

import (
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// task is a plan and the language of its runtime.
type task struct {
	buildplan.Plan

	language *language.Language
}

func taskOf(plan buildplan.Plan) (task, error) {
	known, err := languages.Of(plan.Runtime)
	return task{Plan: plan, language: known}, err
}

// settings lists the files of package managers in the Secret of private packages.
func settings() []string {
	var files []string
	for _, each := range languages.All() {
		files = append(files, each.Packages.Settings)
	}
	return files
}
