package process

import "syscall"

// ownGroup starts a program in a process group of its own. The kernel kills the program with the thread that started it.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
