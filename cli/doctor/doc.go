// Package doctor examines a machine that runs local mode, or a cluster that runs Rouse.
//
//	read facts (its user, clusterread) -> Machine, Cluster -> decide (pure) -> findings, each with its remedy
//
// It changes nothing, and reads within a bounded time. What may not be read is a warning that names the right. The facts about a machine are
// read by the command line, because that takes all of local mode, and the dashboard of a cluster examines clusters alone.
package doctor
