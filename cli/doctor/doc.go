// Package doctor examines a machine that runs local mode, or a cluster that runs Rouse.
//
//	read facts (machineread, clusterread) -> Machine, Cluster -> decide (pure) -> findings, each with its remedy
//
// It changes nothing, and reads within a bounded time. What may not be read is a warning that names the right.
package doctor
