// Package conditions tells activators what the status of a Function says about its start. It reads the cluster's Functions from a
// cache, of which it keeps no more than that.
package conditions
