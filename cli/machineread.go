package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/cli/doctor"
	"github.com/rouse-run/rouse/dev"
	"github.com/rouse-run/rouse/dev/instance"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/toolchain"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// probeTimeout bounds how long an interpreter may take to say its version.
const probeTimeout = 10 * time.Second

// readMachine reads the facts about this machine and a folder.
func readMachine(ctx context.Context, directory string) (doctor.Machine, error) {
	m := doctor.Machine{Directory: directory}
	set, problems, err := manifest.Read(directory)
	if err != nil {
		m.Folder.Problem = err.Error()
	}
	m.Folder.Functions = len(set.Functions)
	for _, problem := range problems {
		if problem.Warning {
			m.Folder.Warnings = append(m.Folder.Warnings, problem.Error())
		} else {
			m.Folder.Errors = append(m.Folder.Errors, problem.Error())
		}
	}
	m.Languages = readLanguages(ctx, set.Functions)
	if err := readFolders(&m); err != nil {
		return doctor.Machine{}, err
	}
	for _, port := range dev.UsualPorts() {
		m.Ports = append(m.Ports, doctor.Port{Number: port.Number, Use: port.Use, Flag: port.Flag, Taken: isTaken(ctx, port.Number)})
	}
	return m, ctx.Err()
}

// readLanguages probes an interpreter for each runtime that the Functions have, and one for each other language.
func readLanguages(ctx context.Context, functions []manifest.Function) []doctor.Language {
	var found []doctor.Language
	for _, each := range languages.All() {
		needed := map[string][]string{}
		for _, fn := range functions {
			if runtime := string(fn.Spec.Runtime); each.Has(runtime) {
				needed[runtime] = append(needed[runtime], fn.Namespace+"/"+fn.Name)
			}
		}
		if len(needed) == 0 {
			needed[each.Default] = nil
		}
		for _, runtime := range each.Runtimes {
			if users, is := needed[runtime.Name]; is {
				found = append(found, probe(ctx, each.Name, runtime.Name, users))
			}
		}
	}
	return found
}

func probe(ctx context.Context, name, runtime string, users []string) doctor.Language {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	l := doctor.Language{Name: name, Title: name, Functions: users}
	program, err := toolchain.Find(ctx, runtime, "")
	if failed, is := errors.AsType[*toolchain.Failure](err); is {
		l.Problem = failed.Message
	} else if err != nil {
		l.Problem = err.Error()
	}
	l.Title, l.Path, l.Version = program.Title, program.Path, program.Version
	return l
}

// readFolders reads the folders of local mode, and which process serves the directory.
func readFolders(m *doctor.Machine) error {
	state, err := instance.Root()
	if err != nil {
		return err
	}
	cache, err := instance.CacheRoot()
	if err != nil {
		return err
	}
	m.Disks = []doctor.Disk{readDisk("events and logs", state, "XDG_STATE_HOME"), readDisk("packages and runtimes", cache, "XDG_CACHE_HOME")}
	if running, err := instance.Serving(state, m.Directory); err == nil {
		m.Running = running.PID
	}
	return nil
}

// writable is the mode of access(2) for writing.
const writable = 2

func readDisk(use, folder, variable string) doctor.Disk {
	d := doctor.Disk{Use: use, Folder: folder, Variable: variable}
	at := existing(folder)
	if err := syscall.Access(at, writable); err != nil {
		d.Problem = "you may not write into " + at
		return d
	}
	free, err := dev.Free(at)
	if err != nil {
		d.Problem = err.Error()
	}
	d.Free = free
	return d
}

// existing returns the folder, or the nearest one above it that exists.
func existing(folder string) string {
	for {
		if _, err := os.Stat(folder); err == nil || filepath.Dir(folder) == folder {
			return folder
		}
		folder = filepath.Dir(folder)
	}
}

func isTaken(ctx context.Context, port int) bool {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return errors.Is(err, syscall.EADDRINUSE)
	}
	_ = listener.Close() // nothing has connected to it
	return false
}
