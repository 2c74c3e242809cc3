package dependencies

import (
	"errors"
	"os/exec"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

const logLines = 40

// failed is what every package manager has in common; the rest is the language's to classify.
func (r Request) failed(installed Ended, log string) *Failure {
	failed := &Failure{Log: lastLines(installed.Output, logLines)}
	switch {
	case errors.Is(installed.Err, exec.ErrNotFound):
		failed.Reason = language.InstallFailed
		failed.Message = r.Site.Name + " has no package manager (" + installed.Err.Error() + "); " + r.Site.Manager
	case installed.Killed || outOfMemory.MatchString(installed.Output):
		failed.Reason = language.OutOfMemory
		failed.Message = "installing the dependencies needs more memory; " + r.Site.Memory
	case outOfSpace.MatchString(installed.Output):
		failed.Reason = language.ImageTooLarge
		failed.Message = r.Site.Space
	default:
		failed.Reason, failed.Message = r.Language.Packages.Classify(language.Failed{
			Output: installed.Output, Log: log, Manifest: r.Manifest, Site: r.Site,
		})
	}
	return failed
}

var (
	outOfMemory = regexp.MustCompile(`JavaScript heap out of memory|(?m)^MemoryError|Cannot allocate memory|Killed signal terminated program|(?m): signal: killed$`)
	outOfSpace  = regexp.MustCompile(`ENOSPC|No space left on device`)
)

func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-count, 0):], "\n")
}
