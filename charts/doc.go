// Package charts has the CRDs of the Helm chart that lies beside it, and checks that chart.
//
// Its tests render the chart with Helm itself for several sets of values, decode every object strictly into its
// type, and check them against the project's rules: restricted pods, least rights, a NetworkPolicy for
// every pod, and only flags that the binaries know.
package charts
