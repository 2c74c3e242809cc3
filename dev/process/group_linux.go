package process

import "syscall"

// ownGroup starts a program in a group of its own, which the kernel kills with the thread that started it.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
