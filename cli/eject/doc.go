// Package eject writes a Function into a folder that builds and runs it without Rouse: a Dockerfile, the sources of the runtime's server and of
// the Function, a plain Deployment with a Service, and a script that runs it as a process.
//
// It guarantees that nothing is overwritten, and that the values of Secrets get into no file.
package eject
