package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Machine holds the facts about a machine and the folder of a local mode.
type Machine struct {
	Directory string
	Running   int // PID of the local mode that serves the folder, 0 without one
	Languages []Language
	Ports     []Port
	Disks     []Disk
	Folder    Folder
}

// Language is a language of Functions, as this machine runs it.
type Language struct {
	Name      string
	Title     string
	Functions []string // of the folder that need it
	Path      string
	Version   string
	Problem   string // why it does not run; its remedy follows a semicolon
}

// Port is a usual port of local mode.
type Port struct {
	Number int
	Use    string
	Flag   string
	Taken  bool
}

// Disk is a folder that local mode writes into.
type Disk struct {
	Use      string
	Folder   string
	Variable string // that moves it
	Free     int64  // bytes
	Problem  string // why it cannot be used
}

// Folder holds what local mode would say about the files.
type Folder struct {
	Functions int
	Errors    []string // objects that do not run
	Warnings  []string
	Problem   string // why the folder cannot be read
}

const (
	mebibyte = 1 << 20
	// leastFree is what local mode requires; plentyFree lets it keep events and packages for a while.
	leastFree  = 64 * mebibyte
	plentyFree = 512 * mebibyte
)

// Examine decides what the facts mean.
func (m Machine) Examine() Report {
	var e examination
	for _, l := range m.Languages {
		l.examine(&e)
	}
	for _, p := range m.Ports {
		p.examine(&e, m.Running)
	}
	for _, d := range m.Disks {
		d.examine(&e)
	}
	m.Folder.examine(&e)
	return reportOf("this machine and "+m.Directory, e.findings)
}

func (l Language) examine(e *examination) {
	problem, remedy, _ := strings.Cut(l.Problem, "; ")
	switch {
	case l.Problem == "":
		e.ok(l.Name, "%s %s at %s", l.Title, l.Version, l.Path)
	case len(l.Functions) > 0:
		e.fail(l.Name, remedy, "%s, and %s needs it", problem, listed(l.Functions))
	default:
		e.warn(l.Name, remedy, "%s; no Function of the folder needs it", problem)
	}
}

func (p Port) examine(e *examination, running int) {
	switch {
	case !p.Taken:
		e.ok("ports", "port %d is free for %s", p.Number, p.Use)
	case running != 0:
		e.ok("ports", "port %d is taken, and local mode runs (PID %d)", p.Number, running)
	default:
		e.warn("ports", "end that program, or choose another port with "+p.Flag,
			"port %d is taken by another program, so %s gets any other port", p.Number, p.Use)
	}
}

func (d Disk) examine(e *examination) {
	remedy := fmt.Sprintf("make room on the disk of %s, or set %s to a folder on another", d.Folder, d.Variable)
	switch free := d.Free / mebibyte; {
	case d.Problem != "":
		e.fail("disk", fmt.Sprintf("correct the permissions of %s, or set %s to another folder", d.Folder, d.Variable),
			"%s cannot be used for %s: %s", d.Folder, d.Use, d.Problem)
	case d.Free < leastFree:
		e.fail("disk", remedy, "%s has %d MiB left for %s, and local mode needs %d", d.Folder, free, d.Use, leastFree/mebibyte)
	case d.Free < plentyFree:
		e.warn("disk", remedy, "%s has %d MiB left for %s", d.Folder, free, d.Use)
	default:
		e.ok("disk", "%s has %d MiB left for %s", d.Folder, free, d.Use)
	}
}

func (f Folder) examine(e *examination) {
	const remedy = "correct the file; docs/local.md says what is read"
	if f.Problem != "" {
		e.fail("manifests", "name the folder with --dir", "%s", f.Problem)
		return
	}
	for _, problem := range bounded(f.Errors) {
		e.fail("manifests", remedy, "%s", problem)
	}
	for _, problem := range bounded(f.Warnings) {
		e.warn("manifests", "", "%s", problem)
	}
	if len(f.Errors)+len(f.Warnings) == 0 {
		e.ok("manifests", "%s", counted(f.Functions, "Function", "Functions"))
	}
}

// bounded returns the first texts, and how many there are more.
func bounded(texts []string) []string {
	if over := len(texts) - maxNamed; over > 0 {
		return append(slices.Clone(texts[:maxNamed]), fmt.Sprintf("and %d more", over))
	}
	return texts
}
