package process

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// The test binary plays the programs that the tests start.
const (
	envRole = "PROCESS_TEST_ROLE"
	envCall = "PROCESS_TEST_CALL" // where a role connects to; the connection ends with it
)

func TestMain(m *testing.M) {
	Keep()
	if role := os.Getenv(envRole); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// play does what a role does; the first word is the role, the others its parameters.
func play(role string) int {
	word, rest, _ := strings.Cut(role, " ")
	if word != "print" {
		signal.Ignore(syscall.SIGHUP)
	}
	switch word {
	case "print": // and end with a status
		_, _ = io.WriteString(os.Stdout, "out 1\nout 2\npartial")
		_, _ = io.WriteString(os.Stderr, "err 1\n")
		status, _ := strconv.Atoi(rest)
		return status
	case "serve":
		asked := make(chan os.Signal, 2)
		signal.Notify(asked, syscall.SIGTERM)
		sendPort(rest)
		_, _ = fmt.Fprintln(os.Stdout, "told")
		<-asked
		_, _ = fmt.Fprintln(os.Stdout, "asked to end")
		return 0
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		sendPort(`4711\n`)
		select {}
	case "guarded": // belongs to a group that the Supervisor did not start
		call(role)
		select {}
	case "tree": // lives with a child and a grandchild
		generations, _ := strconv.Atoi(rest)
		call(role)
		if generations > 1 {
			startChild(fmt.Sprintf("tree %d", generations-1))
		}
		select {}
	case "leave": // ends at once and leaves a child
		startChild("tree 1")
		return 0
	case "supervise": // starts a tree and waits to be killed
		supervise()
		select {}
	}
	return 2
}

func supervise() {
	supervisor, err := New()
	if err == nil {
		_, err = supervisor.Start(roleCommand("tree 3", os.Getenv(envCall)), func(string, string) {})
	}
	if err == nil {
		foreign := roleCommand("guarded", os.Getenv(envCall))
		cmd := &exec.Cmd{Path: foreign.Path, Env: foreign.Env, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
		if err = cmd.Start(); err == nil {
			supervisor.Guard(cmd.Process.Pid)
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	call("keeper is " + strconv.Itoa(supervisor.keeper.command.Process.Pid))
}

// startChild starts a child that is not waited for.
func startChild(role string) {
	own, _ := os.Executable()
	child := exec.Command(own)
	child.Env = roleCommand(role, os.Getenv(envCall)).Env
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		os.Exit(3)
	}
}

func roleCommand(role, call string) Command {
	own, _ := os.Executable()
	return Command{Path: own, Env: []string{envRole + "=" + role, envCall + "=" + call}, Dir: "/"}
}

func sendPort(port string) {
	descriptor, _ := strconv.Atoi(os.Getenv(envReady))
	pipe := os.NewFile(uintptr(descriptor), "ready")
	_, _ = io.WriteString(pipe, strings.ReplaceAll(port, `\n`, "\n"))
	_ = pipe.Close()
}

// call shows that this process lives, over a connection that stays open as long as it does.
func call(name string) {
	conn, err := net.Dial("tcp", os.Getenv(envCall))
	if err == nil {
		_, err = fmt.Fprintf(conn, "%s\n%d\n", name, os.Getpid())
	}
	if err != nil {
		os.Exit(4)
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }() // keeps the connection from the garbage collector
}
