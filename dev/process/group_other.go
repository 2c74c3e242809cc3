//go:build !linux

package process

import "syscall"

// ownGroup starts a program in a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
