package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Set by the linker: -X github.com/rouse-run/rouse/internal/daemon.version=v1.2.3, and the others likewise.
var (
	version string
	commit  string // of Git
	date    string // RFC 3339; the time of the commit, since the same source has to give the same binary
)

const unknown = "unknown"

// Build says what a binary was made of.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Time     string `json:"time"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// String is one line of it.
func (b Build) String() string {
	return fmt.Sprintf("%s (commit %s of %s, %s, %s)", b.Version, b.Commit, b.Time, b.Go, b.Platform)
}

// ThisBuild is that of this binary.
func ThisBuild() Build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(Build{Version: version, Commit: commit, Time: date}, info)
}

// Version is what this binary calls itself: the linked version, else the module's, else "devel".
func Version() string { return ThisBuild().Version }

// buildOf completes what was linked by what Go recorded: the module's version with "go install", and the commit when it
// built in a checkout.
func buildOf(linked Build, info *debug.BuildInfo) Build {
	recorded := map[string]string{}
	installed := ""
	if info != nil {
		installed = info.Main.Version
		for _, setting := range info.Settings {
			recorded[setting.Key] = setting.Value
		}
	}
	if installed == "(devel)" {
		installed = ""
	}
	revision := recorded["vcs.revision"]
	if revision != "" && recorded["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return Build{
		Version:  cmp.Or(linked.Version, installed, "devel"),
		Commit:   cmp.Or(linked.Commit, revision, unknown),
		Time:     cmp.Or(linked.Time, recorded["vcs.time"], unknown),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// RegisterBuild adds rouse_build_info, which is always 1. A registry that has it keeps it.
func RegisterBuild(registerer prometheus.Registerer) error {
	b := ThisBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rouse_build_info", Help: "What the process was made of, as labels of the value 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "goversion": b.Go},
	})
	info.Set(1)
	err := registerer.Register(info)
	if _, has := errors.AsType[prometheus.AlreadyRegisteredError](err); has {
		return nil
	}
	return err
}
