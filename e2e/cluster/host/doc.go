// Package host manages the machine's resources for a cluster: packages, cgroups and sysctls, network devices and
// routes, certificates, and the namespaces in which the programs of a node run under an init of their own.
//
// Every change to the machine is listed by NetworkLeftovers, StrayProcesses or CgroupRoots and undone by the
// corresponding function, so that a cluster leaves only installed packages behind, whose services do not run.
package host
