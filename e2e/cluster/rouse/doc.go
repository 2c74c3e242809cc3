// Package rouse is the workload of the project's own clusters: it builds the images of Rouse and of its runtimes from a
// checkout, and installs them by the chart. Package local, which starts the cluster, defines the interface and imports
// nothing from here.
package rouse
