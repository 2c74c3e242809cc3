// Package host is what a cluster takes from the machine and gives back to it: packages, cgroups and sysctls, network devices and routes,
// certificates, and the namespaces in which the programs of a node run below an init of their own.
//
// Whatever is changed on the machine is listed by one of NetworkLeftovers, StrayProcesses or CgroupRoots and taken back by the function beside it, so
// that a cluster leaves nothing behind but installed packages, whose services do not run.
package host
