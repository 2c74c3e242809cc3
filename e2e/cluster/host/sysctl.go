package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// settings are those of the whole machine that the kubelet or the orchestrator changes.
func settings() []string {
	return []string{
		"net/ipv4/ip_forward", "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

// Sysctls are kernel settings by name.
type Sysctls map[string]string

// ReadSysctls remembers the settings as they are.
func ReadSysctls() Sysctls {
	saved := Sysctls{}
	for _, name := range settings() {
		if content, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			saved[name] = strings.TrimSpace(string(content))
		}
	}
	return saved
}

// Restore sets what has changed since.
func (s Sysctls) Restore() error {
	var problems []error
	for name, now := range ReadSysctls() {
		before, known := s[name]
		if !known || before == now {
			continue
		}
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(before), 0o644); err != nil {
			problems = append(problems, fmt.Errorf("restore %s: %w", name, err))
		}
	}
	return errors.Join(problems...)
}
