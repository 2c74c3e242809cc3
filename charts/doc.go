// Package charts embeds the CRDs of the Helm chart beside it, and tests the chart.
//
// Its tests render the chart with Helm for several sets of values, decode every object strictly into its type, and
// check the project's rules: restricted pods, least privilege, a NetworkPolicy for every pod, and only flags that the
// binaries support.
package charts
