// Package process runs the cluster's programs in namespaces of their own.
//
// One process, the init, is the first of a new PID, mount, network and UTS namespace. It takes requests on a socket in
// the state directory, starts the programs as its children, each in a session of its own, and reaps. All that the
// programs make (processes, mounts, network devices, packet filters, network namespaces of pods) lives in those
// namespaces. When the init is killed, the kernel takes all of it away, whatever state it was in: that is why nothing
// needs to be undone piece by piece. Further nodes have inits of their own, in namespaces within those of the first.
package process
