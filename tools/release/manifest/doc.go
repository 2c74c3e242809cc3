// Package manifest renders the chart of a release into one file for those without Helm: everything but hooks, which only Helm runs, with
// credentials that a Job in the cluster makes up, so that the file is the same for all and has no secret in it.
package manifest
