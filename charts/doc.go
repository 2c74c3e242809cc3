// Package charts has the CRDs of the Helm chart that lies beside it, and checks that chart.
//
// Its tests render the chart with Helm itself for several sets of values, decode every object strictly into its
// type, and hold the objects against the house's rules: restricted pods, least rights, a wall around
// every pod, and only flags that the binaries know.
package charts
