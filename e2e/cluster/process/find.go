package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Self is the copy of the orchestrator that runs as the init: it outlives the temporary file of `go run`.
func Self(dir state.Dir) string { return dir.Path("bin", "rouse-cluster") }

// PID is the init's process number on the host, or 0 when it does not run. It is looked up among the processes, not
// in a file: an orchestrator that was killed may not have come to write one.
func PID(dir state.Dir) int { return InnerPID(dir, dir) }

// InnerPID is that of the init of a further node, whose files are in inner.
func InnerPID(dir, inner state.Dir) int {
	for pid, args := range processes() {
		if len(args) == 3 && args[0] == Self(dir) && args[1] == InitCommand && args[2] == string(inner) {
			return pid
		}
	}
	return 0
}

// Others are the state directories of clusters that run on this machine beside the one of dir. There is one network
// device and one cgroup for a cluster, so there can be but one.
func Others(dir state.Dir) []string {
	var others []string
	for _, args := range processes() {
		if len(args) == 3 && args[0] == Self(state.Dir(args[2])) && args[1] == InitCommand && args[2] != string(dir) {
			others = append(others, args[2])
		}
	}
	return others
}

// Strays lists processes of the cluster as the host sees them: those that were started from the state directory or
// with it among their arguments.
func Strays(dir state.Dir) []string {
	var found []string
	for pid, args := range processes() {
		if pid == os.Getpid() || pid == os.Getppid() {
			continue
		}
		for _, arg := range args {
			if strings.Contains(arg, string(dir)+"/") {
				found = append(found, fmt.Sprintf("process %d: %.120s", pid, strings.Join(args, " ")))
				break
			}
		}
	}
	return found
}

// processes are the arguments of every process that is not dead.
func processes() map[int][]string {
	found := map[int][]string{}
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil || len(content) == 0 { // ended meanwhile, a zombie, or the kernel's own
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil {
			found[pid] = strings.Split(strings.TrimSuffix(string(content), "\x00"), "\x00")
		}
	}
	return found
}

// Kill kills the init, and with it everything in its namespaces, and waits until it is gone.
func Kill(ctx context.Context, dir state.Dir) error {
	pid := PID(dir)
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill the init %d: %w", pid, err)
	}
	return command.Await(ctx, time.Minute, 20*time.Millisecond, "the end of the init", func(context.Context) error {
		if !ended(pid) {
			return fmt.Errorf("process %d is still there", pid)
		}
		return nil
	})
}

// ended says whether a process is gone or only waits for its parent to notice. The kernel lets an init come to that
// only after everything in its PID namespace; that its arguments can no longer be read is not enough.
func ended(pid int) bool {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	// The second field is the name in parentheses, which may hold anything.
	text := string(content)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	return len(fields) > 0 && (fields[0] == "Z" || fields[0] == "X")
}
