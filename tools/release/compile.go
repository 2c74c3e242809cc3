package main

import (
	"bytes"
	"context"
	"debug/elf"
	"debug/macho"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// compiler compiles commands from a source tree.
type compiler struct {
	Source string
	Flags  string // for the linker
}

// commandLine is the only command that users run; all others run in a cluster.
const commandLine = "rouse"

// Servers builds the commands that run in a cluster into a directory, and returns their names in order.
func (c compiler) Servers(ctx context.Context, platform v1.Platform, out string) ([]string, error) {
	folders, err := os.ReadDir(filepath.Join(c.Source, "cmd"))
	if err != nil {
		return nil, fmt.Errorf("list the commands: %w", err)
	}
	var names []string
	for _, folder := range folders {
		if folder.Name() != commandLine {
			names = append(names, folder.Name())
		}
	}
	slices.Sort(names)
	return names, c.build(ctx, platform, out, names...)
}

// Command builds the command line into a directory.
func (c compiler) Command(ctx context.Context, platform v1.Platform, out string) error {
	return c.build(ctx, platform, out, commandLine)
}

func (c compiler) build(ctx context.Context, platform v1.Platform, out string, names ...string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", c.Flags, "-o", out + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	compiler := program{Dir: c.Source, Env: []string{
		"CGO_ENABLED=0", "GOOS=" + platform.OS, "GOARCH=" + platform.Architecture, "GOFLAGS=", "GOWORK=off", "GOFIPS140=v1.0.0",
		"GOAMD64=v1", "GOARM64=v8.0",
	}}
	if _, err := compiler.Run(ctx, "go", args...); err != nil {
		return fmt.Errorf("compile for %s/%s: %w", platform.OS, platform.Architecture, err)
	}
	for _, name := range names {
		if err := checkBinary(filepath.Join(out, name), platform); err != nil {
			return err
		}
	}
	return nil
}

// headerSize is the length of a program's header with its machine.
const headerSize = 64

// The machines of releases, by their numbers in ELF and Mach-O.
var (
	ofLinux  = map[elf.Machine]string{elf.EM_X86_64: "linux/amd64", elf.EM_AARCH64: "linux/arm64"}
	ofDarwin = map[macho.Cpu]string{macho.CpuAmd64: "darwin/amd64", macho.CpuArm64: "darwin/arm64"}
)

// machineOf returns the system and processor of a program from its header: linux/arm64. It returns an error for other
// machines than those of releases.
func machineOf(header []byte) (string, error) {
	machine := ""
	if len(header) >= headerSize {
		order := binary.LittleEndian
		switch {
		case bytes.HasPrefix(header, []byte(elf.ELFMAG)) && header[elf.EI_DATA] == byte(elf.ELFDATA2LSB):
			machine = ofLinux[elf.Machine(order.Uint16(header[18:]))]
		case order.Uint32(header) == macho.Magic64:
			machine = ofDarwin[macho.Cpu(order.Uint32(header[4:]))]
		}
	}
	if machine == "" {
		return "", fmt.Errorf("it is not a program for a platform of the release: it begins with % x", header[:min(len(header), 20)])
	}
	return machine, nil
}

// checkBinary returns an error when a program is for another machine than it was built for. Most of them cannot run
// here.
func checkBinary(file string, platform v1.Platform) error {
	program, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	header := make([]byte, headerSize)
	if _, err := program.Read(header); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	machine, err := machineOf(header)
	if err != nil {
		return fmt.Errorf("look at %s: %w", file, err)
	}
	if want := platform.OS + "/" + platform.Architecture; machine != want {
		return fmt.Errorf("%s is for %s and not for %s", file, machine, want)
	}
	return nil
}
