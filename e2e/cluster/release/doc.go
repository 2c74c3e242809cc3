// Package release makes Rouse's own images from the checkout (the one with all Go binaries, and one for each runtime)
// and installs them with the chart.
package release
