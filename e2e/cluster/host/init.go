package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// InitCommand is the hidden command of the orchestrator that calls Init.
const InitCommand = "init"

// Init runs as the first process of the namespaces. It returns only when it cannot start.
func Init(ctx context.Context, dir state.Dir) error {
	var settings InitSettings
	if err := dir.Load(settingsName, &settings); err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return errors.New("init must be the first process of a PID namespace")
	}
	if err := syscall.Sethostname([]byte(settings.Hostname)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := arrangeMounts(settings); err != nil {
		return err
	}
	supervisor := &supervisor{programs: map[string]*ProgramStatus{}, stopping: map[string]bool{}}
	go supervisor.reap()

	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "unix", dir.Path(socketName))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+programsPath, supervisor.list)
	mux.HandleFunc("POST "+programsPath, supervisor.start)
	mux.HandleFunc("DELETE "+programsPath+"/{name}", supervisor.stop)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	return server.Serve(listener)
}

// supervisor holds the programs by name.
type supervisor struct {
	mu       sync.Mutex
	programs map[string]*ProgramStatus
	stopping map[string]bool // about to be stopped
}

func (s *supervisor) list(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]ProgramStatus, 0, len(s.programs))
	for _, status := range s.programs {
		all = append(all, *status)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all)
}

func (s *supervisor) start(w http.ResponseWriter, r *http.Request) {
	var program Program
	if err := json.NewDecoder(r.Body).Decode(&program); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// The lock is held during the fork, so that the child is registered before it can be reaped.
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.programs[program.Name]; known != nil && known.Running {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	pid, err := fork(program)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.programs[program.Name] = &ProgramStatus{Name: program.Name, PID: pid, Running: true, Log: program.Log, Started: time.Now()}
	w.WriteHeader(http.StatusNoContent)
}

// stop terminates one program. It does not stop children: those of containerd are containers.
func (s *supervisor) stop(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	program := s.programs[r.PathValue("name")]
	if program == nil || !program.Running {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if err := syscall.Kill(program.PID, syscall.SIGTERM); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.stopping[program.Name] = true
	w.WriteHeader(http.StatusNoContent)
}

func fork(program Program) (int, error) {
	log, err := os.OpenFile(program.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }()
	return syscall.ForkExec(program.Path, append([]string{program.Path}, program.Args...), &syscall.ProcAttr{
		Env:   append(os.Environ(), program.Env...),
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Cloneflags: cloneFlags(program)},
	})
}

// namespaces are the namespaces of a node.
const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS

func cloneFlags(program Program) uintptr {
	if program.Init {
		return namespaces
	}
	return 0
}

// reap reaps every child that dies, including orphans of the programs.
func (s *supervisor) reap() {
	died := make(chan os.Signal, 64)
	signal.Notify(died, syscall.SIGCHLD)
	for range died {
		for s.reapOne() {
		}
	}
}

func (s *supervisor) reapOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if errors.Is(err, syscall.EINTR) {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	for name, program := range s.programs {
		switch {
		case program.PID != pid || !program.Running:
		case s.stopping[name]:
			delete(s.stopping, name)
			delete(s.programs, name)
		default:
			program.Running = false
			program.Exit = describe(status)
		}
	}
	return true
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "killed by " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

// hidden are directories in which Kubernetes, containerd and the CNI plugins write to fixed paths. In the cluster's
// mount namespace they are empty and in memory, so that the writes do not reach the host's.
func hidden() []string { return []string{"/run", "/var/log", "/var/lib"} }

// arrangeMounts sets up the mount namespace: a /proc of the PID namespace, empty directories in place of the hidden
// ones, and in them the paths that must remain visible.
func arrangeMounts(settings InitSettings) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	kept, err := openAll(append([]string{settings.State}, settings.Keep...))
	if err != nil {
		return err
	}
	for _, dir := range hidden() {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
	}
	for dir, fd := range kept {
		if err := bind(fmt.Sprintf("/proc/self/fd/%d", fd), dir); err != nil {
			return err
		}
		_ = unix.Close(fd)
	}
	return bindAll(map[string]string{
		filepath.Join(settings.State, "kubelet"): "/var/lib/kubelet",
		filepath.Join(settings.State, "pods"):    "/var/log/pods",
	})
}

func openAll(dirs []string) (map[string]int, error) {
	open := map[string]int{}
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", dir, err)
		}
		open[dir] = fd
	}
	return open, nil
}

func bindAll(sources map[string]string) error {
	for source, target := range sources {
		if err := bind(source, target); err != nil {
			return err
		}
	}
	return nil
}

func bind(source, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", target, err)
	}
	return nil
}
