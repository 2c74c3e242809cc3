package compile

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// HeaderSize is how much of the beginning of a program says for which machine it is.
const HeaderSize = 64

// Machine is for which system and processor a program is, by its header: linux/arm64. What is none of those that are released is
// an error.
func Machine(header []byte) (string, error) {
	if len(header) >= HeaderSize && bytes.HasPrefix(header, []byte(elf.ELFMAG)) && header[elf.EI_DATA] == byte(elf.ELFDATA2LSB) {
		switch elf.Machine(uint16(header[18]) | uint16(header[19])<<8) {
		case elf.EM_X86_64:
			return "linux/amd64", nil
		case elf.EM_AARCH64:
			return "linux/arm64", nil
		}
	}
	if len(header) >= HeaderSize && bytes.HasPrefix(header, []byte{0xcf, 0xfa, 0xed, 0xfe}) {
		switch macho.Cpu(uint32(header[4]) | uint32(header[5])<<8 | uint32(header[6])<<16 | uint32(header[7])<<24) {
		case macho.CpuAmd64:
			return "darwin/amd64", nil
		case macho.CpuArm64:
			return "darwin/arm64", nil
		}
	}
	return "", fmt.Errorf("it is no program for a machine that Rouse is released for: it begins with % x", header[:min(len(header), 20)])
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
