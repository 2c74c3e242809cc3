// Command own measures what the code that Rouse has written itself spares beside the libraries that do the same: the HTTP
// client to sinks, the CloudEvents codec with its JSON scanner, and the pull client. What it spares is set beside the CPU
// that a bridge takes for an event at the same rate.
//
// Only CPU time counts, that of this process: sinks and the nats-server are processes of their own. All do the same job in
// the same loop, one after the other in each round, and the figures are medians over the rounds.
//
// It is a module of its own, so that no library is in the project's go.mod for a comparison alone.
package main
