package compile

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"encoding/binary"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// HeaderSize is how much of the beginning of a program says for which machine it is.
const HeaderSize = 64

// machines that Rouse is released for, by how ELF and Mach-O number them.
var (
	ofLinux  = map[elf.Machine]string{elf.EM_X86_64: "linux/amd64", elf.EM_AARCH64: "linux/arm64"}
	ofDarwin = map[macho.Cpu]string{macho.CpuAmd64: "darwin/amd64", macho.CpuArm64: "darwin/arm64"}
)

// Machine is for which system and processor a program is, by its header: linux/arm64. What is none of those that are released is
// an error.
func Machine(header []byte) (string, error) {
	machine := ""
	if len(header) >= HeaderSize {
		order := binary.LittleEndian
		switch {
		case bytes.HasPrefix(header, []byte(elf.ELFMAG)) && header[elf.EI_DATA] == byte(elf.ELFDATA2LSB):
			machine = ofLinux[elf.Machine(order.Uint16(header[18:]))]
		case order.Uint32(header) == macho.Magic64:
			machine = ofDarwin[macho.Cpu(order.Uint32(header[4:]))]
		}
	}
	if machine == "" {
		return "", fmt.Errorf("it is no program for a machine that Rouse is released for: it begins with % x", header[:min(len(header), 20)])
	}
	return machine, nil
}

// check fails when a program is for another machine than it was built for. Most of them cannot run here.
func check(file string, platform v1.Platform) error {
	program, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	header := make([]byte, HeaderSize)
	if _, err := program.Read(header); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	machine, err := Machine(header)
	if err != nil {
		return fmt.Errorf("look at %s: %w", file, err)
	}
	if want := platform.OS + "/" + platform.Architecture; machine != want {
		return fmt.Errorf("%s is for %s and not for %s", file, machine, want)
	}
	return nil
}
